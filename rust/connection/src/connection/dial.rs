//! From a name to a connected socket.

use crate::address::HostPort;
use crate::config::ConnectionConfig;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

/// Connects to the first address of `place` that accepts within `limit`; the error is the words
/// for the user.
pub async fn connect(
    place: &HostPort,
    config: &ConnectionConfig,
    limit: Duration,
) -> Result<TcpStream, String> {
    let deadline = Instant::now() + limit;
    let mut why = "the name resolves to no address".to_owned();
    let addresses = match timeout_at(deadline, resolve(place)).await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(format!("cannot resolve {}: {}", place.host, words(&error))),
        Err(_) => return Err(format!("resolving {} {}", place.host, took(limit))),
    };
    let mut left = addresses.len();
    for address in addresses {
        // Each address has its share of the time: one that swallows packets leaves some to others.
        let share = deadline.saturating_duration_since(Instant::now()) / left.max(1) as u32;
        left -= 1;
        match timeout_at(Instant::now() + share, open(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream, config);
                return Ok(stream);
            }
            Ok(Err(error)) => why = words(&error),
            Err(_) => why = format!("connecting {}", took(limit)),
        }
    }
    Err(why)
}

/// Every address of a name, in the resolver's order.
async fn resolve(place: &HostPort) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = place.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, place.port)]);
    }
    Ok(tokio::net::lookup_host((place.host.as_str(), place.port)).await?.collect())
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(target_os = "linux")]
    if address.ip().to_canonical().is_loopback() {
        keep_bbr_off(&SockRef::from(&socket));
    }
    socket.connect(address).await
}

/// Lets a connection to this machine begin with `reno` where the system's choice is BBR, as the
/// broker's listeners do.
///
/// BBR paces by the round trip it measures, and on loopback that costs two to four times the
/// throughput. A connection that began with BBR is always paced by a timer, so the choice is made
/// before the connection. `reno` is always permitted.
#[cfg(target_os = "linux")]
fn keep_bbr_off(socket: &SockRef<'_>) {
    if socket.tcp_congestion().is_ok_and(|chosen| chosen.starts_with(b"bbr")) {
        // Refused, it is slower and not wrong.
        let _ = socket.set_tcp_congestion(b"reno");
    }
}

/// Sets what can be set; a system that refuses leaves the connection slower, not wrong.
fn prepare(stream: &TcpStream, config: &ConnectionConfig) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_keepalive(true);
    if let Some(bytes) = config.send_buffer {
        let _ = socket.set_send_buffer_size(bytes);
    }
    if let Some(bytes) = config.receive_buffer {
        let _ = socket.set_recv_buffer_size(bytes);
    }
}

fn took(limit: Duration) -> String {
    format!("took longer than {:.1} s", limit.as_secs_f64())
}

/// An error of the system in a few lower-case words.
pub fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "the broker reset the connection".to_owned(),
        io::ErrorKind::BrokenPipe => "the broker closed the connection".to_owned(),
        io::ErrorKind::TimedOut => "the network timed out".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to the host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "the network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}
