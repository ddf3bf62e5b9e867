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
fn nobody_reachable_lists_every_address_and_what_to_do() {
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
