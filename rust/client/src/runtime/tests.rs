use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[test]
fn a_call_returns_what_its_future_does() {
    let runtime = Runtime::start("test").expect("a thread");
    assert_eq!(runtime.call(async { Ok(7) }, soon()), Ok(7));
}

#[test]
fn a_call_that_never_ends_times_out_and_is_dropped() {
    let runtime = Runtime::start("test").expect("a thread");
    let (end, ended) = sync_channel::<()>(1);
    let never = async move {
        let _held = end;
        std::future::pending::<Result<(), ClientError>>().await
    };
    let result = runtime.call(never, Instant::now());
    assert!(matches!(result, Err(ClientError::Timeout { .. })), "{result:?}");
    // The future was dropped, and with it the sender.
    assert!(matches!(
        ended.recv_timeout(Duration::from_secs(10)),
        Err(RecvTimeoutError::Disconnected)
    ));
}

#[test]
fn a_caller_that_loses_patience_waits_no_longer() {
    let runtime = Runtime::start("test").expect("a thread");
    let never = std::future::pending::<Result<(), ClientError>>();
    let (began, mut deadline) = (Instant::now(), Instant::now() + Duration::from_secs(600));
    let result = runtime.call_patiently(never, &mut deadline, &mut || true);
    assert!(matches!(result, Err(ClientError::Timeout { .. })), "{result:?}");
    assert!(deadline < began + Duration::from_secs(600), "what comes next waits no longer either");
}

#[test]
fn shutting_down_closes_what_is_under_way() {
    let runtime = Runtime::start("test").expect("a thread");
    let call = runtime.begin(std::future::pending::<Result<(), ClientError>>()).expect("a call");
    assert!(runtime.shutdown(Duration::from_secs(10)));
    let closed = ClientError::Closed { what: "test".into() };
    assert_eq!(call.wait(Duration::from_secs(10)), Some(Err(closed)));
    assert!(runtime.shutdown(Duration::ZERO), "a second time does nothing");
}

#[test]
fn a_call_on_a_runtime_that_was_shut_down_is_closed() {
    let runtime = Runtime::start("test").expect("a thread");
    runtime.shutdown(Duration::from_secs(10));
    let result = runtime.call(async { Ok(()) }, soon());
    assert_eq!(result, Err(ClientError::Closed { what: "test".into() }));
}
