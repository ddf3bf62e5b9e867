//! Echo servers that answer on the thread that read: what the loop itself costs.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;

use kafkalite_benches::sys;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{READ_BUFFER_BYTES, REQUEST_BYTES, RESPONSE_BYTES};

/// Counts the bytes of one connection into whole requests.
#[derive(Default)]
pub struct Framing {
    pending_bytes: usize,
}

impl Framing {
    /// How many response bytes are owed after `n` more request bytes.
    pub fn owed(&mut self, n: usize) -> usize {
        self.pending_bytes += n;
        let requests = self.pending_bytes / REQUEST_BYTES;
        self.pending_bytes %= REQUEST_BYTES;
        requests * RESPONSE_BYTES
    }
}

pub fn raw_epoll(mut connections: Vec<TcpStream>) -> io::Result<()> {
    let epoll = sys::Epoll::new()?;
    for (token, connection) in connections.iter().enumerate() {
        epoll.add(connection, token as u64, sys::Interest::Read)?;
    }
    let mut framing: Vec<Framing> = connections.iter().map(|_| Framing::default()).collect();
    let (mut events, mut buffer) = (sys::events(), vec![0; READ_BUFFER_BYTES]);
    let mut open = connections.len();
    while open > 0 {
        for token in epoll.wait(&mut events, None)? {
            let token = token as usize;
            let n = connections[token].read(&mut buffer)?;
            if n == 0 {
                open -= 1;
                epoll.modify(&connections[token], token as u64, sys::Interest::Nothing)?;
                continue;
            }
            let owed = framing[token].owed(n);
            connections[token].write_all(&buffer[..owed])?;
        }
    }
    Ok(())
}

pub fn on_mio(connections: Vec<TcpStream>) -> io::Result<()> {
    let mut poll = mio::Poll::new()?;
    let mut streams = HashMap::new();
    for (token, connection) in connections.into_iter().enumerate() {
        let (token, mut stream) = (mio::Token(token), mio::net::TcpStream::from_std(connection));
        poll.registry().register(&mut stream, token, mio::Interest::READABLE)?;
        streams.insert(token, (stream, Framing::default()));
    }
    let (mut events, mut buffer) = (mio::Events::with_capacity(256), vec![0; READ_BUFFER_BYTES]);
    while !streams.is_empty() {
        poll.poll(&mut events, None)?;
        for event in &events {
            let Some((stream, framing)) = streams.get_mut(&event.token()) else {
                continue;
            };
            // mio is edge-triggered: a read that did not fill the buffer has emptied the socket.
            loop {
                let n = match stream.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    other => other?,
                };
                if n == 0 {
                    streams.remove(&event.token());
                    break;
                }
                stream.write_all(&buffer[..framing.owed(n)])?;
                if n < buffer.len() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// One task per connection on one thread. `poll_read` (not `try_read`) because it knows that a
/// short read emptied the socket and spares the read that would only say so.
pub fn on_tokio(connections: Vec<TcpStream>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for connection in connections {
            let mut stream = tokio::net::TcpStream::from_std(connection)?;
            tasks.push(tokio::spawn(async move {
                let (mut framing, mut buffer) = (Framing::default(), vec![0; READ_BUFFER_BYTES]);
                loop {
                    let mut room = ReadBuf::new(&mut buffer);
                    poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut room)).await?;
                    let n = room.filled().len();
                    if n == 0 {
                        return Ok::<(), io::Error>(());
                    }
                    let mut owed = framing.owed(n);
                    while owed > 0 {
                        let answer = &buffer[..owed];
                        owed -= poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, answer)).await?;
                    }
                }
            }));
        }
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        Ok(())
    })
}
