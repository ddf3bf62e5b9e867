//! A directory of its own for each run, in memory where there is a tmpfs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs of this process.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    ///
    /// # Errors
    /// No directory can be made.
    pub fn new() -> io::Result<Self> {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        // Answers may hold the path: of the same length in each run, or one seed has two histories.
        let name = format!("kafkalite-rooms-{:010}-{number:010}", std::process::id());
        let memory = Path::new("/dev/shm").join(&name);
        let path = match std::fs::create_dir_all(&memory) {
            Ok(()) => memory,
            Err(_) => std::env::temp_dir().join(&name),
        };
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that stays has a name that no later run uses.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
