//! Gives memory that is not used any more back to the system.
//!
//! A start reads the metadata on one thread and opens the logs on others. What the first one frees
//! again, glibc keeps for that thread.

/// Gives back what glibc keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn give_back() {
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back() {}
