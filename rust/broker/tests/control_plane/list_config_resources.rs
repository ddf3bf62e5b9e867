use super::*;
use kafkalite_protocol::messages::list_config_resources::ListConfigResourcesRequest;

#[test]
fn resources_are_listed_by_type() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    client::create_topic(&fixture.broker, "t", 1, &[]);
    for (version, types, code, expected) in [
        (0, vec![], ErrorCode::None, vec![]),
        (1, vec![], ErrorCode::None, vec![("1", 8), ("1", 4), ("t", 2)]),
        (1, vec![2], ErrorCode::None, vec![("t", 2)]),
        (1, vec![2, 4], ErrorCode::None, vec![("1", 4), ("t", 2)]),
        (1, vec![16, 32], ErrorCode::None, vec![]),
        (1, vec![2, 99], ErrorCode::UnsupportedVersion, vec![]),
    ] {
        let request = ListConfigResourcesRequest { resource_types: types.clone() };
        let response = fixture.call(&request, version);
        assert_eq!(response.error_code, code.code(), "v{version} {types:?}");
        let listed = response.config_resources.iter();
        let listed: Vec<_> =
            listed.map(|one| (one.resource_name.as_str(), one.resource_type)).collect();
        assert_eq!(listed, expected, "v{version} {types:?}");
    }
}
