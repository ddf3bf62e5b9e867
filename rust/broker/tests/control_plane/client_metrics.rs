use super::*;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use kafkalite_protocol::messages::push_telemetry::PushTelemetryRequest;

fn subscribe(name: &str, configs: &[(&str, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let config = |(name, value): &(&str, Option<&str>)| AlterableConfig {
        name: (*name).to_owned(),
        config_operation: i8::from(value.is_none()),
        value: value.map(str::to_owned),
    };
    let resource = AlterConfigsResource {
        resource_type: 16,
        resource_name: name.to_owned(),
        configs: configs.iter().map(config).collect(),
    };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}

fn ask(client_instance_id: Uuid) -> GetTelemetrySubscriptionsRequest {
    GetTelemetrySubscriptionsRequest { client_instance_id }
}

#[test]
fn a_client_is_asked_for_what_a_subscription_says_until_it_is_gone() {
    let mut fixture = Fixture::new();
    let id = Uuid([7; 16]);
    let before = fixture.call(&ask(id), 0);
    assert_eq!((before.error_code, before.requested_metrics.len()), (0, 0));
    assert_eq!(before.accepted_compression_types, [4, 3, 1, 2]);
    let subscription = subscribe("s", &[("metrics", Some("a.,b.")), ("interval.ms", Some("100"))]);
    assert_eq!(fixture.call(&subscription, 1).responses[0].error_code, 0);
    let asked = fixture.call(&ask(id), 0);
    assert_eq!((asked.requested_metrics.join(" "), asked.push_interval_ms), ("a. b.".into(), 100));
    let push = PushTelemetryRequest {
        client_instance_id: id,
        subscription_id: before.subscription_id,
        ..PushTelemetryRequest::default()
    };
    let unknown = ErrorCode::UnknownSubscriptionId.code();
    assert_eq!(fixture.call(&push, 0).error_code, unknown);
    let known = PushTelemetryRequest { subscription_id: asked.subscription_id, ..push };
    awaited::until("an interval to pass", || fixture.call(&known, 0).error_code == 0);
    let removed = subscribe("s", &[("metrics", None), ("interval.ms", None)]);
    assert_eq!(fixture.call(&removed, 1).responses[0].error_code, 0);
    assert_eq!(fixture.call(&ask(id), 0).requested_metrics.len(), 0);
}

/// What a restart reads from the metadata log, and from a snapshot of it, is what was promised.
#[test]
fn a_subscription_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let id = Uuid([7; 16]);
    let ask = ask(id);
    let told = {
        let broker = client::start(directory.path(), &[]);
        let mut client = Client::connect(&broker);
        let subscription = subscribe("s", &[("metrics", Some("*"))]);
        assert_eq!(client.call(&subscription, 1).responses[0].error_code, 0);
        let told = client.call(&ask, 0);
        broker.stop();
        told
    };
    let broker = client::start(directory.path(), &[]);
    let again = Client::connect(&broker).call(&ask, 0);
    assert_eq!(again.requested_metrics, ["*"]);
    assert_eq!(again.subscription_id, told.subscription_id);
    broker.stop();
}
