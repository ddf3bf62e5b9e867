use super::*;

#[test]
fn an_api_requires_an_operation_that_its_resource_knows() {
    for api in SERVED {
        if let Some((operation, resource)) = required(*api) {
            assert_ne!(resource.operations() & operation.bit(), 0, "{api:?}");
        }
    }
}

#[test]
fn only_handshakes_delegation_tokens_and_telemetry_require_no_operation() {
    use ApiKey::*;
    let open: Vec<_> = SERVED.iter().filter(|api| required(**api).is_none()).collect();
    let expected = [
        &SaslHandshake,
        &ApiVersions,
        &SaslAuthenticate,
        &CreateDelegationToken,
        &RenewDelegationToken,
        &ExpireDelegationToken,
        &DescribeDelegationToken,
        &GetTelemetrySubscriptions,
        &PushTelemetry,
    ];
    assert_eq!(open, expected);
}

/// They stood behind the requests of clients where brokers have no listener of their own.
#[test]
fn clients_that_flood_a_listener_hold_up_no_heartbeat_and_no_vote() {
    let lanes = PRIVATE.map(|api| (api, policy(api as i16).lane));
    let ahead = lanes.into_iter().filter(|(_, lane)| *lane == Lane::Brokers);
    let expected = [ApiKey::BrokerHeartbeat, ApiKey::Quorum, ApiKey::ProposeRecords];
    assert_eq!(ahead.map(|(api, _)| api).collect::<Vec<_>>(), expected);
}

#[test]
fn an_unknown_api_waits_for_nothing_and_runs_alone() {
    let unknown = ApiPolicy { lane: Lane::Control, overlap: Overlap::Alone, inline: false };
    assert_eq!((policy(-1), policy(9_999)), (unknown, unknown));
}
