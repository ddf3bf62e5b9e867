//! Echo servers that hand every request to an I/O thread and get the answer back: what a loop
//! costs when others must wake it.
//!
//! All three follow the rules for cheap wakes: one response queue per event loop, no wake while
//! the loop is running, and the loop itself writes the sockets. tokio has no way to ask whether
//! its thread sleeps, so there the pump task stands for the thread: whoever finds it waiting wakes.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;

use kafkalite_benches::mailbox::Mailbox;
use kafkalite_benches::sys;
use tokio::io::{AsyncRead, ReadBuf};

use crate::inline::Framing;
use crate::{READ_BUFFER_BYTES, RESPONSE_BYTES};

/// So many bytes are owed to connection `token`.
struct Answer {
    token: usize,
    owed: usize,
}

/// Starts the I/O thread. It ends when the event loop drops the sender.
fn io_thread(
    queue: Arc<Mailbox<Answer>>,
    wake: impl Fn() + Send + 'static,
) -> mpsc::Sender<Answer> {
    let (requests, inbox) = mpsc::channel();
    thread::spawn(move || {
        for request in inbox {
            if queue.push(request) {
                wake();
            }
        }
    });
    requests
}

fn submit(requests: &mpsc::Sender<Answer>, token: usize, owed: usize) -> io::Result<()> {
    requests.send(Answer { token, owed }).map_err(io::Error::other)
}

pub fn raw_epoll(mut connections: Vec<TcpStream>) -> io::Result<()> {
    let (epoll, wake) = (sys::Epoll::new()?, Arc::new(sys::Wake::new()?));
    let (mut framing, wake_token) = (Vec::new(), connections.len());
    epoll.add(&*wake, wake_token as u64, sys::Interest::Read)?;
    for (token, connection) in connections.iter().enumerate() {
        epoll.add(connection, token as u64, sys::Interest::Read)?;
        framing.push(Framing::default());
    }
    let (queue, waker) = (Arc::new(Mailbox::default()), Arc::clone(&wake));
    let requests = io_thread(Arc::clone(&queue), move || {
        let _ = waker.wake();
    });
    let (mut events, mut buffer) = (sys::events(), vec![0; READ_BUFFER_BYTES]);
    let mut open = connections.len();
    while open > 0 {
        let ready = epoll.wait(&mut events, queue.park())?;
        queue.unpark();
        for token in ready.map(|token| token as usize) {
            if token == wake_token {
                wake.clear();
                continue;
            }
            let n = connections[token].read(&mut buffer)?;
            if n == 0 {
                open -= 1;
                epoll.modify(&connections[token], token as u64, sys::Interest::Nothing)?;
                continue;
            }
            submit(&requests, token, framing[token].owed(n))?;
        }
        for Answer { token, owed } in queue.take() {
            connections[token].write_all(&buffer[..owed])?;
        }
    }
    Ok(())
}

pub fn on_mio(connections: Vec<TcpStream>) -> io::Result<()> {
    let mut poll = mio::Poll::new()?;
    let wake_token = mio::Token(connections.len());
    let waker = mio::Waker::new(poll.registry(), wake_token)?;
    let mut streams = Vec::new();
    for (token, connection) in connections.into_iter().enumerate() {
        let mut stream = mio::net::TcpStream::from_std(connection);
        poll.registry().register(&mut stream, mio::Token(token), mio::Interest::READABLE)?;
        streams.push((stream, Framing::default()));
    }
    let queue = Arc::new(Mailbox::default());
    let requests = io_thread(Arc::clone(&queue), move || {
        let _ = waker.wake();
    });
    let (mut events, mut buffer) = (mio::Events::with_capacity(256), vec![0; READ_BUFFER_BYTES]);
    let mut open = streams.len();
    while open > 0 {
        poll.poll(&mut events, queue.park())?;
        queue.unpark();
        for event in events.iter().filter(|event| event.token() != wake_token) {
            let token = event.token().0;
            let (stream, framing) = &mut streams[token];
            // One read is enough: no client here sends more than the buffer holds.
            let n = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => other?,
            };
            if n == 0 {
                open -= 1;
                poll.registry().deregister(stream)?;
                continue;
            }
            submit(&requests, token, framing.owed(n))?;
        }
        for Answer { token, owed } in queue.take() {
            streams[token].0.write_all(&buffer[..owed])?;
        }
    }
    Ok(())
}

/// Connection tasks only read; one pump task takes the answers and writes all sockets.
pub fn on_tokio(connections: Vec<TcpStream>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let notify = Arc::new(tokio::sync::Notify::new());
        let (queue, notified) = (Arc::new(Mailbox::default()), Arc::clone(&notify));
        let requests = io_thread(Arc::clone(&queue), move || notified.notify_one());
        let (mut tasks, mut writers) = (Vec::new(), Vec::new());
        for (token, connection) in connections.into_iter().enumerate() {
            let (reader, writer) = tokio::net::TcpStream::from_std(connection)?.into_split();
            writers.push(writer);
            tasks.push(tokio::spawn(read_all(reader, token, requests.clone())));
        }
        let pump = tokio::spawn(async move {
            loop {
                if queue.park().is_none() {
                    notify.notified().await;
                }
                queue.unpark();
                for Answer { token, owed } in queue.take() {
                    writers[token].try_write(&[1; RESPONSE_BYTES][..owed])?;
                }
            }
            #[allow(unreachable_code, reason = "the type of the task's result")]
            Ok::<(), io::Error>(())
        });
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        pump.abort();
        Ok(())
    })
}

async fn read_all(
    mut reader: tokio::net::tcp::OwnedReadHalf,
    token: usize,
    requests: mpsc::Sender<Answer>,
) -> io::Result<()> {
    let (mut framing, mut buffer) = (Framing::default(), vec![0; READ_BUFFER_BYTES]);
    loop {
        let mut room = ReadBuf::new(&mut buffer);
        poll_fn(|cx| Pin::new(&mut reader).poll_read(cx, &mut room)).await?;
        match room.filled().len() {
            0 => return Ok(()),
            n => submit(&requests, token, framing.owed(n))?,
        }
    }
}
