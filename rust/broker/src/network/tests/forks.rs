//! Sockets of a broker whose process was forked. The test copies descriptors by `pidfd_getfd`,
//! because a fork does the same to each of them.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::SockRef;

use super::*;

/// A copy of each socket of this process that is bound to `port`.
fn copies(port: u16) -> Vec<OwnedFd> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).expect("this process is there");
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    let all = numbers.filter_map(|fd| pidfd_getfd(this.as_fd(), fd, PidfdGetfdFlags::empty()).ok());
    let is_bound = |copy: &OwnedFd| {
        let local = SockRef::from(copy).local_addr().ok();
        local.and_then(|local| local.as_socket()).is_some_and(|local| local.port() == port)
    };
    // The list may name copies that were made meanwhile.
    let mut peers = HashSet::new();
    let is_new = |copy: &OwnedFd| {
        let peer = SockRef::from(copy).peer_addr().ok();
        peers.insert(peer.and_then(|peer| peer.as_socket()))
    };
    all.filter(is_bound).filter(is_new).collect()
}

/// Sockets were closed and never shut down. With a copy in a forked child, clients of a stopped
/// broker waited without end, and its port could not be bound again.
#[test]
fn a_broker_that_ends_is_gone_although_a_forked_process_has_its_sockets() {
    let broker = Broker::start(NetworkConfig::default(), echo);
    let mut client = broker.connect();
    client.send(&request(METADATA, 1, b""));
    assert_eq!(client.receive_id(), 1);
    let port = broker.network.addresses()[0].1.port();
    let copies = copies(port);
    assert_eq!(copies.len(), 2, "the listener and the connection");
    drop(broker);
    assert!(client.is_closed());
    let refused = TcpStream::connect(("127.0.0.1", port)).expect_err("no socket listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let listener = ListenerConfig { port, ..NetworkConfig::default().listeners.remove(0) };
    let config = NetworkConfig { listeners: vec![listener], ..NetworkConfig::default() };
    Network::bind(&config).expect("the port is free again");
    drop(copies);
}
