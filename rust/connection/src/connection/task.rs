//! The task of a connection: writes what is queued, reads answers, watches deadlines.
//!
//! The three run side by side in one task; when one ends, the connection does.

use super::dial::words;
use super::frames::Frames;
use super::shared::{Out, Progress, Shared};
use crate::config::ConnectionConfig;
use crate::error::ConnectionError;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Reads in a row before others on the thread have their turn.
const READS_AT_A_TIME: usize = 16;

/// Starts the task of a connection.
pub fn spawn(shared: Arc<Shared>, stream: TcpStream, config: &ConnectionConfig) {
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
async fn read(shared: &Shared, stream: &TcpStream, cap: usize) -> ConnectionError {
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
                    Err(error) => return shared.no_response(&error),
                }
            }
        }
        if more {
            tokio::task::yield_now().await;
        }
    }
}

/// Writes what is queued until the connection ends; returns why.
async fn write(shared: &Shared, stream: &TcpStream) -> ConnectionError {
    let mut out = Out::default();
    loop {
        match shared.write(stream, &mut out) {
            Ok(Progress::All) => shared.to_write.notified().await,
            Ok(Progress::Full) => {
                if let Err(error) = stream.writable().await {
                    return shared.disconnected(&words(&error));
                }
            }
            Ok(Progress::Over) => {
                return shared.disconnected("this client closed the connection");
            }
            Err(error) => return shared.disconnected(&words(&error)),
        }
    }
}

/// Sleeps from deadline to deadline until one passes; returns why the connection ended.
async fn watch(shared: &Shared, max_idle: Option<Duration>) -> ConnectionError {
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
