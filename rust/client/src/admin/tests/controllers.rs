//! Controllers that are cut off: they do not answer, or are no controllers any more.

use super::*;
use kafkalite_connection::testing::two;

/// Two brokers, each naming the first as the controller. The second creates topics.
fn with_first(first: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> [FakeBroker; 2] {
    let second = |asked: &Asked| match asked.is(ApiKey::CreateTopics) {
        true => created(asked, |_| ErrorCode::None),
        false => Answer::Usual,
    };
    two(
        move |asked| if asked.is(ApiKey::CreateTopics) { first(asked) } else { Answer::Usual },
        second,
    )
}

/// How one topic was created within `seconds`.
async fn create(admin: &Admin, seconds: f64) -> Result<CreatedTopic, ClientError> {
    let limit = Some(Duration::from_secs_f64(seconds));
    let mut each = admin.create_topics(vec![topic("a")], true, limit).await?;
    each.remove(0).1
}

/// A controller that was cut off was asked again by every call.
#[test]
fn after_a_controller_that_does_not_answer_another_broker_is_asked() {
    let [first, _second] = with_first(|_| Answer::Silence);
    run(&first, |admin| async move {
        let late = create(&admin, 0.3).await;
        assert!(matches!(late, Err(ClientError::Timeout { .. })), "{late:?}");
        let made = create(&admin, 20.0).await;
        assert!(made.is_ok(), "{made:?}");
    });
}

/// The call ended with that although it had more time: the leader of the quorum had changed.
#[test]
fn after_a_controller_that_makes_no_change_in_time_another_broker_is_asked() {
    let [first, _second] = with_first(|asked| created(asked, |_| ErrorCode::RequestTimedOut));
    run(&first, |admin| async move {
        let made = create(&admin, 20.0).await;
        assert!(made.is_ok(), "{made:?}");
    });
}

#[test]
fn a_call_asks_another_broker_when_the_controller_is_slower_than_a_request_may_be() {
    let [first, _second] = with_first(|_| Answer::Silence);
    let hasty = config(&first, &[("request.timeout.ms", "300")]);
    let made = run_with(&hasty, |admin| async move { create(&admin, 20.0).await });
    assert!(made.is_ok(), "{made:?}");
}

#[test]
fn a_call_asks_another_broker_when_the_connection_to_the_controller_breaks() {
    let [first, _second] = with_first(|_| Answer::Close);
    let made = run(&first, |admin| async move { create(&admin, 20.0).await });
    assert!(made.is_ok(), "{made:?}");
}

/// Both brokers name the first one as the controller, which it is no longer.
#[test]
fn a_call_asks_another_broker_when_the_controller_says_that_it_is_none() {
    let [first, _second] = with_first(|asked| created(asked, |_| ErrorCode::NotController));
    let made = run(&first, |admin| async move { create(&admin, 20.0).await });
    assert!(made.is_ok(), "{made:?}");
}

#[test]
fn a_controller_alone_is_asked_again_after_it_was_late() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::CreateTopics) {
        true if asked.before == 0 => Answer::Silence,
        true => created(asked, |_| ErrorCode::None),
        false => Answer::Usual,
    });
    run(&broker, |admin| async move {
        assert!(create(&admin, 0.3).await.is_err());
        let made = create(&admin, 20.0).await;
        assert!(made.is_ok(), "{made:?}");
    });
}
