//! What can go wrong with a listener is told apart.

use super::*;

fn config(host: &str, port: u16) -> ListenerConfig {
    ListenerConfig { name: "PLAINTEXT".into(), host: host.into(), port }
}

fn bind(host: &str, port: u16) -> Result<Listener, BindError> {
    Listener::bind(&config(host, port), &NetworkConfig::default())
}

#[test]
fn port_0_is_told_as_the_port_the_system_chose() {
    let listener = bind("127.0.0.1", 0).expect("a free port");
    assert_ne!(listener.address().port(), 0);
    assert_eq!(&**listener.name(), "PLAINTEXT");
}

#[test]
fn a_name_is_resolved() {
    assert!(bind("localhost", 0).expect("a free port").address().ip().is_loopback());
}

#[test]
fn a_taken_port_and_a_foreign_address_are_told_apart() {
    let first = bind("127.0.0.1", 0).expect("a free port");
    let port = first.address().port();
    let taken = bind("127.0.0.1", port).expect_err("it is taken");
    assert!(matches!(taken, BindError::PortTaken { port: p, .. } if p == port), "{taken}");
    // 192.0.2.0/24 is reserved for documentation: no machine has it.
    let foreign = bind("192.0.2.1", 0).expect_err("not ours");
    assert!(matches!(foreign, BindError::UnknownHost { .. }), "{foreign}");
    let nowhere = bind("no.such.host.invalid", 0).expect_err("no address");
    assert!(matches!(nowhere, BindError::UnknownHost { .. }), "{nowhere}");
}
