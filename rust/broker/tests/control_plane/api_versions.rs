use super::*;
use kafkalite_protocol::ApiKey;
use kafkalite_protocol::messages::api_versions::ApiVersionsRequest;

fn named(name: &str) -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: name.to_owned(),
        client_software_version: "1.0-x".to_owned(),
    }
}

#[test]
fn every_version_lists_what_is_served_and_produce_from_0() {
    let mut fixture = Fixture::new();
    for version in 0..=4 {
        let response = fixture.call(&named("librdkafka"), version);
        assert_eq!(response.error_code, 0, "v{version}");
        let of = |api: ApiKey| {
            let found = response.api_keys.iter().find(|one| one.api_key == api as i16);
            found.map(|one| (one.min_version, one.max_version))
        };
        assert_eq!(of(ApiKey::Produce), Some((0, 13)));
        assert_eq!(of(ApiKey::Fetch), Some((4, 18)));
        assert_eq!(of(ApiKey::Metadata), Some((0, 13)));
        assert_eq!(of(ApiKey::ApiVersions), Some((0, 4)));
    }
}

#[test]
fn a_version_that_is_not_served_is_answered_in_version_0_with_those_that_are() {
    let mut fixture = Fixture::new();
    for version in [5, 99, -1] {
        let sent = fixture.client.send(&named("x"), version);
        let (id, response) = fixture.client.receive::<ApiVersionsRequest>(0).unwrap();
        assert_eq!((id, response.error_code), (sent, ErrorCode::UnsupportedVersion.code()));
        let ranges: Vec<_> = (response.api_keys.iter())
            .map(|one| (one.api_key, one.min_version, one.max_version))
            .collect();
        assert_eq!(ranges, [(18, 0, 4)]);
    }
    assert_eq!(fixture.call(&named("x"), 4).error_code, 0, "the connection lives on");
}

#[test]
fn the_name_of_a_client_is_letters_digits_dots_and_dashes() {
    let mut fixture = Fixture::new();
    for (name, valid) in [
        ("x", true),
        ("apache-kafka-java", true),
        ("a.b-c", true),
        ("", false),
        ("a b", false),
        ("a_b", false),
        ("-a", false),
        ("a-", false),
        ("ä", false),
    ] {
        let expected = if valid { 0 } else { ErrorCode::InvalidRequest.code() };
        assert_eq!(fixture.call(&named(name), 3).error_code, expected, "{name:?} in v3");
        assert_eq!(fixture.call(&named(name), 2).error_code, 0, "v2 has no name");
    }
}
