//! The syscalls std does not have: epoll, eventfd, sendfile, `MSG_MORE`, CPU clocks, pinning.
//!
//! The one room of this crate with `unsafe`. Every call passes file descriptors that the caller
//! borrows and buffers whose length goes with them, and turns -1 into `io::Error`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A level-triggered epoll set. What is registered comes back as its `token`.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Room for the events of one wait.
pub type Events = Vec<libc::epoll_event>;

/// Space for up to 256 events.
#[must_use]
pub fn events() -> Events {
    vec![libc::epoll_event { events: 0, u64: 0 }; 256]
}

/// What a registration waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
    /// Only room to write: the peer's bytes stay in the kernel.
    Write,
    /// Nothing: Kafka's muted connection.
    Nothing,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Self::Read => libc::EPOLLIN,
            Self::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
            Self::Write => libc::EPOLLOUT,
            Self::Nothing => 0,
        };
        bits.cast_unsigned()
    }
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor returned is new and owned by nobody else.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn control(&self, op: i32, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: `event` lives through the call, which copies it.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
    }

    /// Registers a descriptor. Closing it unregisters it.
    ///
    /// # Errors
    /// It is registered already.
    pub fn add(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), token, interest)
    }

    /// Changes what a registered descriptor waits for.
    ///
    /// # Errors
    /// It is not registered.
    pub fn modify(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), token, interest)
    }

    /// Waits for events and returns the tokens that are ready; none after the timeout, which is
    /// exact to the thread's timer slack (`epoll_wait` would round it to milliseconds).
    ///
    /// # Errors
    /// Anything but an interruption by a signal, which counts as no events.
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = u64> + use<'a>> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (room, len) = (events.as_mut_ptr(), events.len() as i32);
        let (fd, no_mask) = (self.0.as_raw_fd(), std::ptr::null());
        // SAFETY: `room` points at `len` events that are ours alone during the call, and `timeout`
        // at a value that outlives it or nowhere.
        let ready = unsafe { libc::epoll_pwait2(fd, room, len, timeout, no_mask) };
        let ready = match check(ready) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        Ok(events[..ready].iter().map(|event| event.u64))
    }
}

/// Wakes an epoll wait from another thread: readable after [`Wake::wake`] until [`Wake::clear`].
#[derive(Debug)]
pub struct Wake(File);

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Wake {
    /// A new eventfd, not readable.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor returned is new and owned by nobody else.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    ///
    /// # Errors
    /// None in practice: the counter would have to overflow.
    pub fn wake(&self) -> io::Result<()> {
        (&self.0).write_all(&1_u64.to_ne_bytes())
    }

    /// Makes it unreadable again. Call it before looking at what the wake was about.
    pub fn clear(&self) {
        // WouldBlock says that it was clear already.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

/// Sends `bytes` and says that more follows at once, so that the kernel fills the segment.
///
/// # Errors
/// Those of `send(2)`, `WouldBlock` among them.
pub fn send_more(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length are those of one slice, read only during the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    check_len(sent)
}

/// Sends up to `len` bytes of `file` from `position` on without copying them to user space.
///
/// # Errors
/// Those of `sendfile(2)`, `WouldBlock` among them.
pub fn sendfile(
    socket: &impl AsRawFd,
    file: &File,
    position: u64,
    len: usize,
) -> io::Result<usize> {
    let mut offset = position as libc::off_t;
    let (out, from) = (socket.as_raw_fd(), file.as_raw_fd());
    // SAFETY: `offset` lives through the call; both descriptors are borrowed.
    check_len(unsafe { libc::sendfile(out, from, &raw mut offset, len) })
}

/// Chooses the congestion control of a socket; a listener's is inherited by what it accepts.
///
/// On loopback BBR paces where nothing is congested and costs 2-4x, so benches ask for `reno`.
///
/// # Errors
/// The kernel has no such module, or forbids it.
pub fn set_congestion_control(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    let (len, value) = (name.len() as libc::socklen_t, name.as_ptr().cast());
    let fd = socket.as_raw_fd();
    // SAFETY: value and length are those of one string, copied by the call.
    check(unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, len) })
        .map(drop)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours; both clocks exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process so far, ended threads included.
#[must_use]
pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Lets the calling thread's timeouts end when they are due instead of up to 50 us later.
///
/// # Errors
/// None on Linux.
pub fn no_timer_slack() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).map(drop)
}

/// Keeps the calling thread on one core.
///
/// # Errors
/// The core does not exist or is not ours to use.
pub fn pin_thread(core: usize) -> io::Result<()> {
    // SAFETY: a cpu_set_t is a bit field for which all zeros is a value, the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the macro checks `core` against the size of the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` lives through the call and `size` is its size.
    check(unsafe { libc::sched_setaffinity(0, size, &raw const set) }).map(drop)
}
