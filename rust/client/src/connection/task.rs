//! The task of a connection: writes what is queued, reads answers, watches deadlines.
//!
//! The three run side by side in one task; when one ends, the connection does.

use super::dial::words;
use super::frames::Frames;
use super::shared::{Outgoing, Shared};
use crate::config::ClientConfig;
use crate::error::ClientError;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Reads in a row before others on the thread have their turn.
const READS_AT_A_TIME: usize = 16;
/// Pieces of memory that one system call writes.
const PIECES_AT_A_TIME: usize = 64;

/// Starts the task of a connection.
pub fn spawn(shared: Arc<Shared>, stream: TcpStream, config: &ClientConfig) {
    let cap = config.response_max_bytes;
    let max_idle = config.connections_max_idle;
    tokio::spawn(async move {
        let error = tokio::select! {
            error = read(&shared, &stream, cap) => error,
            error = write(&shared, &stream) => error,
            error = watch(&shared, max_idle) => error,
        };
        shared.close(error);
    });
}

/// Reads until the connection ends; returns why.
async fn read(shared: &Shared, stream: &TcpStream, cap: usize) -> ClientError {
    let mut frames = Frames::new(cap);
    loop {
        if let Err(error) = stream.readable().await {
            return shared.disconnected(&words(&error));
        }
        let mut more = true;
        for _ in 0..READS_AT_A_TIME {
            match stream.try_read(frames.space()) {
                Ok(0) => return shared.disconnected("the broker closed the connection"),
                Ok(count) => frames.arrived(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    more = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return shared.disconnected(&words(&error)),
            }
            loop {
                match frames.cut() {
                    Ok(Some(frame)) => {
                        if let Err(why) = shared.answer(&frame) {
                            return shared.malformed(why);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return shared.malformed(error.to_string()),
                }
            }
        }
        if more {
            tokio::task::yield_now().await;
        }
    }
}

/// Writes what is queued until the connection ends; returns why.
async fn write(shared: &Shared, stream: &TcpStream) -> ClientError {
    loop {
        let Some(queue) = shared.take_queue() else {
            return shared.disconnected("this client closed the connection");
        };
        if queue.is_empty() {
            shared.to_write.notified().await;
        } else if let Err(error) = write_all(stream, queue).await {
            return shared.disconnected(&words(&error));
        }
    }
}

async fn write_all(stream: &TcpStream, queue: Vec<Outgoing>) -> io::Result<()> {
    let mut pieces: VecDeque<Bytes> = VecDeque::new();
    let mut written = Vec::new();
    for outgoing in queue {
        pieces.extend(outgoing.pieces);
        written.extend(outgoing.written);
    }
    while !pieces.is_empty() {
        let slices: Vec<IoSlice<'_>> =
            pieces.iter().take(PIECES_AT_A_TIME).map(|piece| IoSlice::new(piece)).collect();
        match stream.try_write_vectored(&slices) {
            Ok(count) => skip(&mut pieces, count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    for told in written {
        let _ = told.send(());
    }
    Ok(())
}

/// Takes `count` bytes off the front.
fn skip(pieces: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(first) = pieces.front_mut() {
        if first.len() > count {
            first.advance(count);
            return;
        }
        count -= first.len();
        pieces.pop_front();
    }
}

/// Sleeps from deadline to deadline until one passes; returns why the connection ended.
async fn watch(shared: &Shared, max_idle: Option<Duration>) -> ClientError {
    loop {
        let now = std::time::Instant::now();
        match shared.check_deadlines(now, max_idle) {
            Some(next) => {
                tokio::select! {
                    () = tokio::time::sleep_until(next.into()) => {}
                    () = shared.earlier.notified() => {}
                }
            }
            None if shared.is_closed() => return shared.disconnected("the connection was closed"),
            None => shared.earlier.notified().await,
        }
    }
}
