//! Notices when the process that started this one has ended, in any way. The end of stdin is no
//! proof: a worker that the parent forked keeps the other end open.
//!
//! A pidfd names the process itself: a later process with the same id is not mistaken for it. Not
//! PR_SET_PDEATHSIG: that goes with the thread that started us, which may end much earlier.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use tokio::sync::oneshot;

/// Between two looks where the kernel has no pidfd.
const LOOK: Duration = Duration::from_millis(200);

/// Starts to watch the process with id `parent`. The receiver gets its word when that has ended; at
/// once if it has ended already.
///
/// # Errors
/// The system refuses a thread.
pub(super) fn watch(parent: u32) -> io::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    let wait = move || {
        wait_for_end(parent);
        // The broker may be stopping already.
        let _ = ended.send(());
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(wait)?;
    Ok(end)
}

fn wait_for_end(parent: u32) {
    let Some(pid) = i32::try_from(parent).ok().and_then(Pid::from_raw) else { return };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) if wait_for(&process).is_ok() => return,
        Err(Errno::SRCH) => return,
        _ => {}
    }
    while test_kill_process(pid) != Err(Errno::SRCH) {
        std::thread::sleep(LOOK);
    }
}

/// Returns when the process has ended.
fn wait_for(process: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
