//! The system calls of one connected socket, and its options.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;

use bytes::Bytes;
use kafkalite_log::FileSlice;
use mio::net::{TcpListener, TcpStream};
use rustix::buffer::spare_capacity;
#[cfg(target_os = "linux")]
use rustix::ioctl;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::NetworkConfig;
use super::output::Sink;

/// A connected socket whose connection ends when it is dropped.
///
/// Closing a descriptor ends nothing while a process that was forked meanwhile has a copy of it:
/// the peer would wait for answers as long as that child lives. So the connection is shut down
/// first, which holds for every copy.
pub struct PeerSocket(TcpStream);

impl PeerSocket {
    /// The socket of a connection that was accepted.
    #[must_use]
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(stream)
    }

    /// Nothing is sent after what was given to the socket. The peer sees the end behind it.
    pub(super) fn end_sending(&self) {
        // Refused where the peer has ended the connection before.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Bytes given to the socket that the peer's machine has not acknowledged. Where the system
    /// does not tell: 0.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    pub(super) fn unacknowledged(&self) -> u32 {
        // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int and reads nothing.
        let bytes = unsafe {
            const SIOCOUTQ: ioctl::Opcode = libc::TIOCOUTQ as ioctl::Opcode;
            ioctl::ioctl(&self.0, ioctl::Getter::<SIOCOUTQ, libc::c_int>::new())
        };
        bytes.ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn unacknowledged(&self) -> u32 {
        0
    }
}

impl Deref for PeerSocket {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0
    }
}

impl DerefMut for PeerSocket {
    fn deref_mut(&mut self) -> &mut TcpStream {
        &mut self.0
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        // Refused where the peer has ended the connection before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A listening socket that gives its port back when it is dropped, even if a forked process has a
/// copy. The drop shuts the socket down, so it stops listening, and the port can be bound again.
#[derive(Debug)]
pub(super) struct ListeningSocket(TcpListener);

impl ListeningSocket {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl Deref for ListeningSocket {
    type Target = TcpListener;

    fn deref(&self) -> &TcpListener {
        &self.0
    }
}

impl DerefMut for ListeningSocket {
    fn deref_mut(&mut self) -> &mut TcpListener {
        &mut self.0
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        shut_down(&self.0);
    }
}

/// Ends what a socket does, in every process that has a copy of it.
fn shut_down(socket: &impl AsFd) {
    if let Err(error) = rustix::net::shutdown(socket, rustix::net::Shutdown::Both) {
        // macOS refuses it for listeners; there only a forked child with a copy would notice.
        tracing::debug!(%error, "a socket was not shut down");
    }
}

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
///
/// `elsewhere` is what [`keep_bbr_off_loopback`] said of the listener.
pub(super) fn configure(
    stream: &TcpStream,
    peer: SocketAddr,
    config: &NetworkConfig,
    elsewhere: Option<&str>,
) {
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
    if let Some(congestion) = elsewhere
        && !peer.ip().to_canonical().is_loopback()
    {
        refused("TCP_CONGESTION", set_congestion(stream, congestion));
    }
}

/// Lets connections of `listener` begin with `reno` where the system's choice is BBR, and returns
/// that choice, for connections that do not come over loopback.
///
/// BBR paces by the round trip it measures, which on loopback costs two to four times the
/// throughput. A connection that began with BBR is always paced by a timer, whatever is set later.
/// So the listener must not have it. `reno` is always permitted.
#[cfg(target_os = "linux")]
pub(super) fn keep_bbr_off_loopback(listener: &TcpListener) -> Option<String> {
    let chosen = rustix::net::sockopt::tcp_congestion(listener).ok()?;
    if !chosen.starts_with("bbr") {
        return None;
    }
    match rustix::net::sockopt::set_tcp_congestion(listener, "reno") {
        Ok(()) => Some(chosen),
        Err(error) => {
            tracing::debug!(%error, "reno was refused for a listener");
            None
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep_bbr_off_loopback(_: &TcpListener) -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
fn set_congestion(stream: &TcpStream, name: &str) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_congestion(stream, name)?)
}

#[cfg(not(target_os = "linux"))]
fn set_congestion(_: &TcpStream, _: &str) -> io::Result<()> {
    Ok(())
}
