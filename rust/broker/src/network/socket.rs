//! The system calls of one connected socket, and its options.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use bytes::Bytes;
use kafkalite_log::FileSlice;
use mio::net::TcpStream;
use rustix::buffer::spare_capacity;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::NetworkConfig;
use super::output::Sink;

impl Sink for TcpStream {
    fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        // A peer that is gone must not raise SIGPIPE in the Python process around us.
        let more = if more { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | more;
        let mut control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(&*self, slices, &mut control, flags)?)
    }

    fn send_file(&mut self, slice: &FileSlice, count: usize) -> io::Result<usize> {
        let mut position = slice.position;
        Ok(rustix::fs::sendfile(&*self, slice.file.as_fd(), Some(&mut position), count)?)
    }

    fn read_file(&mut self, slice: &FileSlice) -> io::Result<Bytes> {
        read_range(slice)
    }
}

/// Reads a whole range into memory. Its length was bounded by the caller.
fn read_range(slice: &FileSlice) -> io::Result<Bytes> {
    let length = slice.length as usize;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let position = slice.position + bytes.len() as u64;
        match rustix::io::pread(slice.file.as_fd(), spare_capacity(&mut bytes), position) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may have given more than was asked for, and pread filled it.
    bytes.truncate(length);
    Ok(Bytes::from(bytes))
}

/// Sets the options of an accepted socket. A refusal costs speed, not correctness, so it is logged
/// and forgotten.
pub(super) fn configure(stream: &TcpStream, peer: SocketAddr, config: &NetworkConfig) {
    let socket = socket2::SockRef::from(stream);
    let refused = |option: &str, result: io::Result<()>| {
        if let Err(error) = result {
            tracing::debug!(option, %error, "a socket option was refused");
        }
    };
    refused("TCP_NODELAY", socket.set_tcp_nodelay(true));
    refused("SO_KEEPALIVE", socket.set_keepalive(true));
    if let Some(bytes) = config.send_buffer_bytes {
        refused("SO_SNDBUF", socket.set_send_buffer_size(bytes));
    }
    prefer_reno_on_loopback(stream, peer.ip());
}

/// BBR paces by the round trip it measures, which on loopback costs two to four times the
/// throughput; `reno` is always permitted.
#[cfg(target_os = "linux")]
fn prefer_reno_on_loopback(stream: &TcpStream, peer: IpAddr) {
    if !peer.to_canonical().is_loopback() {
        return;
    }
    let is_bbr =
        rustix::net::sockopt::tcp_congestion(stream).is_ok_and(|name| name.starts_with("bbr"));
    if is_bbr && let Err(error) = rustix::net::sockopt::set_tcp_congestion(stream, "reno") {
        tracing::debug!(%error, "reno was refused on loopback");
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_reno_on_loopback(_: &TcpStream, _: IpAddr) {}
