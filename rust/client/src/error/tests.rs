use super::*;

#[test]
fn a_text_begins_with_kafkas_name_and_ends_with_the_brokers_words() {
    let words = Some("no such thing".to_owned());
    let error = ClientError::refused(ErrorCode::InvalidConfig, words, "topic orders");
    assert_eq!(error.to_string(), "INVALID_CONFIG: topic orders: no such thing");
    let error = ClientError::refused(ErrorCode::InvalidConfig, Some(String::new()), "topic orders");
    assert_eq!(error.to_string(), "INVALID_CONFIG: topic orders");
}

#[test]
fn no_reachable_broker_lists_every_address_and_what_to_do() {
    let causes =
        vec![("127.0.0.1:9092".to_owned(), "connection refused (3 tries in 3.0 s)".into())];
    let error = ClientError::NoBrokerReachable { causes, after_ms: 3_000 };
    assert_eq!(
        error.to_string(),
        "NO_BROKER_REACHABLE: cannot reach any broker\n  127.0.0.1:9092  connection refused (3 \
         tries in 3.0 s)"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("kafkalite doctor 127.0.0.1:9092")));
}

#[test]
fn code_zero_is_no_error() {
    assert_eq!(ClientError::check(0, None, String::new), Ok(()));
    let error = ClientError::check(3, None, || "topic orders".into()).expect_err("code 3");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert!(error.retriable() && !error.fatal());
}

/// One of each.
fn of_a_connection() -> Vec<ConnectionError> {
    let address = || "b:1".to_owned();
    let why = || "why".to_owned();
    let codes = (-1..=200).map(ErrorCode::from_code);
    let refusals = codes.map(|code| ConnectionError::refused(code, "topic t"));
    let others = [
        ConnectionError::NoBrokerReachable { causes: vec![(address(), why())], after_ms: 1 },
        ConnectionError::Timeout { what: why(), after_ms: 1 },
        ConnectionError::Disconnected { address: address(), why: why() },
        ConnectionError::MalformedResponse { address: address(), why: why() },
        ConnectionError::ResponseTooLarge { address: address(), size: 2_000, limit: 1_024 },
        ConnectionError::UnsupportedVersion {
            address: address(),
            api: "Fetch",
            needed: "version 4".to_owned(),
            served: None,
        },
    ];
    refusals.chain(others).collect()
}

#[test]
fn an_error_of_a_connection_keeps_its_code_and_whether_to_try_again() {
    for error in of_a_connection() {
        let mapped = ClientError::from(error.clone());
        assert_eq!(mapped.code(), error.code(), "{mapped}");
        assert_eq!(mapped.retriable(), error.is_retriable(), "{mapped}");
        assert_eq!(mapped.is_transport(), error.is_transport(), "{mapped}");
    }
}

#[test]
fn a_response_that_is_too_large_names_the_key_to_raise() {
    let error = ConnectionError::ResponseTooLarge { address: "b:1".into(), size: 9, limit: 7 };
    assert_eq!(
        ClientError::from(error).to_string(),
        "MALFORMED_RESPONSE: b:1: a response of 9 bytes, kafkalite.response.max.bytes is 7"
    );
}
