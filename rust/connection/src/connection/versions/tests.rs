use super::*;
use kafkalite_protocol::Writer;
use kafkalite_protocol::messages::Versioned;
use kafkalite_protocol::messages::api_versions::ApiVersion;
use kafkalite_protocol::messages::metadata::MetadataRequest;

fn answer(error_code: i16, keys: &[(i16, i16, i16)]) -> ApiVersionsResponse {
    let api =
        |&(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version };
    ApiVersionsResponse {
        error_code,
        api_keys: keys.iter().map(api).collect(),
        ..Default::default()
    }
}

fn read(response: &ApiVersionsResponse, written_in: i16, asked_in: i16) -> Answer {
    let mut writer = Writer::new();
    response.encode(&mut writer, written_in);
    read_answer(Reader::new(writer.into_bytes()), asked_in).expect("readable")
}

#[test]
fn the_newest_version_that_both_speak_is_agreed_upon() {
    let ours = MetadataRequest::VERSIONS;
    for (min, max, agreed) in [
        (0, ours.max + 5, Some(ours.max)),
        (0, 4, Some(4)),
        (ours.max + 1, ours.max + 2, None),
        (-5, -1, None),
    ] {
        let versions = Versions::new(answer(0, &[(ApiKey::Metadata as i16, min, max)]));
        assert_eq!(versions.agreed::<MetadataRequest>(i16::MAX), agreed, "{min}-{max}");
    }
    assert_eq!(Versions::default().agreed::<MetadataRequest>(i16::MAX), None);
}

#[test]
fn a_broker_that_is_older_names_the_version_to_ask_in() {
    for (keys, asked_in, ask_in) in [
        (vec![(18, 0, 3)], 4, 3),
        (vec![], 4, 0),
        // A broker that names the version it refused would be asked without end.
        (vec![(18, 0, 4)], 4, 3),
        (vec![(18, 0, -7)], 4, 0),
    ] {
        match read(&answer(35, &keys), 0, asked_in) {
            Answer::AskIn(version) => assert_eq!(version, ask_in),
            _ => panic!("{keys:?} is no reason to stop asking"),
        }
    }
    assert!(matches!(read(&answer(35, &[]), 0, 0), Answer::Refused(ErrorCode::UnsupportedVersion)));
    assert!(matches!(read(&answer(0, &[(18, 0, 4)]), 4, 4), Answer::Served(_)));
}
