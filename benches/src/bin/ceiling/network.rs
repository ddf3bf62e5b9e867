//! The network thread, and in two of the modes one I/O thread behind it.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;

use kafkalite_benches::mailbox::Mailbox;
use kafkalite_benches::sys::{self, Epoll, Interest, Wake};

use crate::connection::{Connection, Frames};
use crate::store::{Piece, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Inline,
    Queued,
    Muted,
}

const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
/// Read buffers kept for reuse.
const MAX_SPARE_BUFFERS: usize = 32;

/// A token stays its connection's for good, so that a late answer never meets a stranger.
struct Job {
    token: usize,
    frames: Frames,
}

struct Done {
    token: usize,
    frames: Frames,
    pieces: io::Result<Vec<Piece>>,
}

fn run(store: &mut Store, frames: &mut Frames) -> io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    frames.for_each(|frame| store.handle(frame, &mut pieces))?;
    Ok(pieces)
}

/// Who runs requests.
enum Work {
    Here(Store),
    IoThread(mpsc::Sender<Job>),
}

struct Network {
    mode: Mode,
    epoll: Epoll,
    connections: Vec<Option<Connection>>,
    spare: Vec<Vec<u8>>,
    work: Work,
}

/// Serves for good.
pub fn serve(listener: &TcpListener, store: Store, mode: Mode) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let (epoll, wake) = (Epoll::new()?, Arc::new(Wake::new()?));
    epoll.add(listener, LISTENER, Interest::Read)?;
    epoll.add(&*wake, WAKE, Interest::Read)?;
    let answers = Arc::new(Mailbox::default());
    let work = match mode {
        Mode::Inline => Work::Here(store),
        Mode::Queued | Mode::Muted => io_thread(store, Arc::clone(&answers), Arc::clone(&wake)),
    };
    let (connections, spare) = (Vec::new(), Vec::new());
    let mut network = Network { mode, epoll, connections, spare, work };
    let mut events = sys::events();
    loop {
        let ready = network.epoll.wait(&mut events, answers.park())?;
        answers.unpark();
        for token in ready {
            match token {
                LISTENER => network.accept(listener)?,
                WAKE => wake.clear(),
                token => network.on_ready(token as usize),
            }
        }
        for done in answers.take() {
            network.on_done(done);
        }
    }
}

fn io_thread(mut store: Store, answers: Arc<Mailbox<Done>>, wake: Arc<Wake>) -> Work {
    let (jobs, inbox) = mpsc::channel::<Job>();
    thread::spawn(move || {
        for Job { token, mut frames } in inbox {
            let pieces = run(&mut store, &mut frames);
            if answers.push(Done { token, frames, pieces }) {
                let _ = wake.wake();
            }
        }
    });
    Work::IoThread(jobs)
}

impl Network {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        let (socket, _) = match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        let connection = Connection::new(socket)?;
        let token = self.connections.len();
        self.epoll.add(&connection.socket, token as u64, Interest::Read)?;
        self.connections.push(Some(connection));
        Ok(())
    }

    /// A connection that errs is closed; the answers it still awaits are dropped.
    fn on_ready(&mut self, token: usize) {
        if self.read_and_run(token).and_then(|()| self.write(token)).is_err() {
            self.connections[token] = None;
        }
    }

    fn read_and_run(&mut self, token: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[token] else {
            return Ok(());
        };
        if connection.muted(self.mode) {
            return Ok(());
        }
        let Some(mut frames) = connection.read(self.mode, &mut self.spare)? else {
            return Ok(());
        };
        match &mut self.work {
            Work::Here(store) => {
                connection.answer(run(store, &mut frames)?);
                self.spare.push(frames.into());
                Ok(())
            }
            Work::IoThread(jobs) => {
                connection.in_flight = true;
                jobs.send(Job { token, frames }).map_err(io::Error::other)
            }
        }
    }

    fn on_done(&mut self, done: Done) {
        if self.spare.len() < MAX_SPARE_BUFFERS {
            self.spare.push(done.frames.into());
        }
        let Some(connection) = &mut self.connections[done.token] else {
            return;
        };
        connection.in_flight = false;
        let written = match done.pieces {
            Ok(pieces) => {
                connection.answer(pieces);
                self.write(done.token)
            }
            Err(error) => Err(error),
        };
        if written.is_err() {
            self.connections[done.token] = None;
        }
    }

    fn write(&mut self, token: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[token] else {
            return Ok(());
        };
        if connection.has_answers() {
            connection.write(self.mode)?;
        }
        let interest = connection.wanted_interest(self.mode);
        if interest != connection.interest {
            connection.interest = interest;
            self.epoll.modify(&connection.socket, token as u64, interest)?;
        }
        Ok(())
    }
}
