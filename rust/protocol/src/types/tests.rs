use super::*;

#[test]
fn a_uuid_is_spelled_as_kafka_spells_it() {
    // Both columns from org.apache.kafka.common.Uuid.
    for (bytes, text) in [
        (0_u128, "AAAAAAAAAAAAAAAAAAAAAA"),
        (1, "AAAAAAAAAAAAAAAAAAAAAQ"),
        (u128::MAX, "_____________________w"),
        (0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, "ASNFZ4mrze8BI0VniavN7w"),
    ] {
        let uuid = Uuid(bytes.to_be_bytes());
        assert_eq!(uuid.to_string(), text);
        assert_eq!(Uuid::parse(text), Some(uuid));
    }
}

#[test]
fn text_that_is_no_uuid_is_refused() {
    for text in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(Uuid::parse(text), None, "{text}");
    }
}
