//! Each failure of a listener has an error of its own.

#![allow(clippy::unwrap_used)]
use super::*;

fn config(host: &str, port: u16) -> ListenerConfig {
    let (name, audience) = ("PLAINTEXT".into(), Audience::Clients);
    ListenerConfig { name, host: host.into(), port, audience }
}

fn bind(host: &str, port: u16) -> Result<Listener, BindError> {
    Listener::bind(&config(host, port), &NetworkConfig::default())
}

#[test]
fn port_0_is_reported_as_the_port_the_system_chose() {
    let listener = bind("127.0.0.1", 0).expect("a free port");
    assert_ne!(listener.address().port(), 0);
    assert_eq!(&**listener.name(), "PLAINTEXT");
}

#[test]
fn a_name_is_resolved() {
    assert!(bind("localhost", 0).expect("a free port").address().ip().is_loopback());
}

/// A client that tries ::1 first was refused where localhost was bound at 127.0.0.1 only.
#[test]
fn every_address_of_a_host_is_bound_at_one_port() {
    let here: Vec<_> =
        ["127.0.0.1:0", "[::1]:0"].iter().map(|text| text.parse().unwrap()).collect();
    // This machine may have no IPv6; then there is one.
    let expected = here.iter().filter(|one| std::net::TcpListener::bind(one).is_ok()).count();
    let network = NetworkConfig::default();
    let bound = (0..PORT_TRIES).find_map(|_| listen_on_all(&here, &network).ok()).unwrap();
    assert_eq!(bound.len(), expected);
    for listening in &bound {
        assert_eq!(listening.address.port(), bound[0].address.port());
        assert!(std::net::TcpStream::connect(listening.address).is_ok());
    }
    // An address that is not this machine's is passed over as long as there is another.
    let foreign = ["192.0.2.1:0".parse().unwrap(), here[0]];
    assert_eq!(listen_on_all(&foreign, &network).unwrap().len(), 1);
    assert!(listen_on_all(&foreign[..1], &network).is_err());
    let resolved = ("localhost", 0).to_socket_addrs().unwrap();
    let resolved: std::collections::BTreeSet<_> = resolved.map(|address| address.ip()).collect();
    let listener = bind("localhost", 0).expect("a free port");
    let ips: std::collections::BTreeSet<_> =
        listener.sockets.iter().map(|socket| socket.address.ip()).collect();
    assert!(ips.is_subset(&resolved) && (expected < 2 || ips == resolved), "{ips:?}");
}

#[test]
fn a_taken_port_and_a_foreign_address_are_different_errors() {
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
