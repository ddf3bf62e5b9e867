//! A file descriptor that wakes an event loop, rung by a client's thread.
//!
//! That thread needs neither the GIL nor the loop for it. Neither end ever waits: a loop may look
//! twice for one byte, and a ringer may find no room.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// Made when it is first asked for: the end that a loop reads, and the end that is written.
#[derive(Default)]
pub struct Doorbell(OnceLock<(UnixStream, UnixStream)>);

impl Doorbell {
    /// What a loop watches; a read of it never waits.
    ///
    /// # Errors
    /// The system's, if it has no file descriptor left.
    pub fn fd(&self) -> io::Result<i32> {
        Ok(self.ends()?.0.as_raw_fd())
    }

    /// Makes the descriptor readable.
    ///
    /// # Errors
    /// As `fd`.
    pub fn ringer(&self) -> io::Result<impl FnOnce() + Send + 'static> {
        let mut end = self.ends()?.1.try_clone()?;
        Ok(move || {
            // Without room there are bytes to read, and they wake as well.
            let _ = end.write_all(&[1]);
        })
    }

    fn ends(&self) -> io::Result<&(UnixStream, UnixStream)> {
        if self.0.get().is_none() {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            write.set_nonblocking(true)?;
            // Another thread may have been quicker: then its pair counts.
            let _ = self.0.set((read, write));
        }
        Ok(self.0.get().expect("it was set a line above, by us or by another"))
    }
}
