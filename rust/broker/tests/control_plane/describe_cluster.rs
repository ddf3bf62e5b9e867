use super::*;
use kafkalite_protocol::messages::describe_cluster::DescribeClusterRequest;

#[test]
fn every_version_lists_the_brokers_and_the_cluster() {
    let mut fixture = Fixture::new();
    let port = fixture.broker.listeners()[0].1.port();
    for (version, asked, operations) in [(0, true, 8_096), (1, false, i32::MIN), (2, true, 8_096)] {
        let include_cluster_authorized_operations = asked;
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations,
            ..DescribeClusterRequest::default()
        };
        let response = fixture.call(&request, version);
        assert_eq!((response.error_code, response.error_message), (0, None));
        assert_eq!(response.cluster_id.len(), 22);
        assert_eq!(response.controller_id, response.brokers[0].broker_id);
        assert_eq!(response.brokers[0].port, i32::from(port));
        assert_eq!(response.cluster_authorized_operations, operations);
    }
}

#[test]
fn only_brokers_are_found_here() {
    let mut fixture = Fixture::new();
    for (endpoint_type, code, message) in [
        (
            2,
            ErrorCode::MismatchedEndpointType,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of \
             type CONTROLLER",
        ),
        (9, ErrorCode::UnsupportedEndpointType, "Unsupported endpoint type 9"),
    ] {
        let request = DescribeClusterRequest { endpoint_type, ..DescribeClusterRequest::default() };
        let response = fixture.call(&request, 1);
        assert_eq!((response.error_code, response.error_message), error(code, message));
        assert_eq!(response.brokers, []);
    }
}
