use super::*;
use bytes::Bytes;

#[test]
fn a_header_comes_back_as_it_was_written() {
    for (api, version) in [(ApiKey::Metadata, 1), (ApiKey::Metadata, 12), (ApiKey::ApiVersions, 3)]
    {
        let header = RequestHeader {
            api_key: api as i16,
            api_version: version,
            correlation_id: 7,
            client_id: Some("me".to_owned()),
        };
        let mut writer = Writer::new();
        header.encode(&mut writer);
        writer.raw(b"body");
        let mut reader = Reader::new(writer.into_bytes());
        assert_eq!(RequestHeader::decode(&mut reader), Ok(header));
        assert_eq!(reader.into_rest(), Bytes::from_static(b"body"));
    }
}

#[test]
fn the_answer_to_api_versions_never_has_tags_in_its_header() {
    assert_eq!(begin_response(ApiKey::ApiVersions, 4, 1).len(), 8);
    assert_eq!(begin_response(ApiKey::Metadata, 12, 1).len(), 9);
}
