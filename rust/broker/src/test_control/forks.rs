//! Forks: second brokers in this process, for clients of any language.
//!
//! A fork begins with a copy of a snapshot: the folder `.kafkalite-snapshots/ID.fork` in each log
//! directory. The process that runs this broker starts the fork. A fork ends when it is deleted, or
//! with this broker.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::TestControl;
use super::refusal::Refused;
use super::snapshots::{FORK, Failure, folders, known, remove};
use crate::handlers::Rooms;

/// A second broker that runs; dropping it ends it.
pub trait Forked: Send {
    /// `HOST:PORT` of each listener, comma-separated.
    fn bootstrap_servers(&self) -> String;
    /// The URL of its admin API.
    fn admin_url(&self) -> Option<String>;
}

/// Starts a broker on these log directories.
pub type StartFork = Box<dyn Fn(&[PathBuf]) -> Result<Box<dyn Forked>, Refused> + Send + Sync>;

/// Forks that run at the same time, at most.
const MOST_FORKS: usize = 100;

/// A fork and its log directories.
pub(super) struct Fork {
    id: u64,
    broker: Box<dyn Forked>,
    directories: Vec<PathBuf>,
}

/// What a fork begins with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// A snapshot; none is the present.
    #[serde(default)]
    snapshot: Option<u64>,
}

/// A fork as its maker sees it.
#[derive(Serialize)]
pub(super) struct Told {
    id: u64,
    bootstrap_servers: String,
    admin_url: Option<String>,
}

/// All forks, oldest first.
#[derive(Serialize)]
pub(super) struct List {
    forks: Vec<Told>,
}

impl Fork {
    fn told(&self) -> Told {
        let (bootstrap_servers, admin_url) =
            (self.broker.bootstrap_servers(), self.broker.admin_url());
        Told { id: self.id, bootstrap_servers, admin_url }
    }

    /// Ends the broker, and removes its files.
    fn end(self) {
        drop(self.broker);
        if let Err(failure) = remove(&self.directories) {
            tracing::warn!(why = failure.refused().why, "the files of a fork stay");
        }
    }
}

/// Copies a directory of a snapshot. A broker writes into empty files only: it replaces the others,
/// or adds new ones. So those get a second name.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (found, to) = (entry.metadata()?, to.join(entry.file_name()));
        if found.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else if found.len() == 0 {
            // The lock of a log directory too: each broker has a lock of its own.
            fs::File::create_new(&to)?;
        } else {
            fs::hard_link(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop))?;
        }
    }
    Ok(())
}

impl TestControl {
    /// The process can start forks.
    pub fn fork_with(&self, start: StartFork) {
        self.start_fork.get_or_init(|| start);
    }

    pub(super) fn fork(&self, wanted: &Wanted) -> Result<Told, Refused> {
        let (rooms, roots) = self.alone()?;
        let snapshot = match wanted.snapshot {
            Some(id) => id,
            None => self.take_snapshot()?.id(),
        };
        let told = self.fork_of(&rooms, &roots, snapshot);
        if wanted.snapshot.is_none()
            && let Err(refused) = self.delete_snapshot(snapshot)
        {
            tracing::warn!(why = refused.why, "the snapshot of a fork stays");
        }
        told
    }

    /// Starts a fork of a snapshot. No snapshot comes or goes meanwhile.
    fn fork_of(&self, rooms: &Rooms, roots: &[PathBuf], snapshot: u64) -> Result<Told, Refused> {
        let _copying = self.copying.lock();
        if self.forks.lock().len() >= MOST_FORKS {
            let why = format!("{MOST_FORKS} forks run already");
            return Err(Refused::bad("there is no fork", why, "delete some of them."));
        }
        let start = self.start_fork.get().ok_or_else(Refused::not_running)?;
        known(roots, snapshot)?;
        let id = self.new_id(rooms, roots);
        let from = folders(roots, &snapshot.to_string());
        let directories = folders(roots, &format!("{id}{FORK}"));
        let copied = from.iter().zip(&directories).try_for_each(|(from, to)| {
            copy_tree(from, to).map_err(|error| Failure::Io(to.clone(), error).refused())
        });
        match copied.and_then(|()| start(&directories)) {
            Ok(broker) => {
                let fork = Fork { id, broker, directories };
                let told = fork.told();
                match self.keep_fork(fork) {
                    Ok(()) => Ok(told),
                    Err(fork) => {
                        fork.end();
                        Err(Refused::not_running())
                    }
                }
            }
            Err(refused) => {
                // The first failure counts.
                let _ = remove(&directories);
                Err(refused)
            }
        }
    }

    /// Keeps a fork for as long as the broker runs; it comes back when the broker stops.
    fn keep_fork(&self, fork: Fork) -> Result<(), Fork> {
        let mut forks = self.forks.lock();
        // Under the lock that the stop takes for the forks: it ends this one, or is seen here.
        if self.commands.are_over() {
            return Err(fork);
        }
        forks.push(fork);
        Ok(())
    }

    /// The forks that run.
    pub(super) fn fork_ids(&self) -> Vec<u64> {
        self.forks.lock().iter().map(|fork| fork.id).collect()
    }

    pub(super) fn told_forks(&self) -> List {
        List { forks: self.forks.lock().iter().map(Fork::told).collect() }
    }

    pub(super) fn delete_fork(&self, id: u64) -> Result<Told, Refused> {
        let fork = {
            let mut forks = self.forks.lock();
            let place = forks.iter().position(|fork| fork.id == id);
            place.map(|place| forks.remove(place))
        };
        let fork = fork.ok_or_else(|| {
            let (what, why) = (format!("there is no fork {id}"), "it was deleted, or never made");
            let hint = "GET /api/v1/forks lists the forks.".to_owned();
            Refused { status: 404, what, why: why.to_owned(), hint }
        })?;
        let told = fork.told();
        fork.end();
        Ok(told)
    }

    /// Ends all forks.
    pub(super) fn end_forks(&self) {
        let forks = std::mem::take(&mut *self.forks.lock());
        forks.into_iter().for_each(Fork::end);
    }
}
