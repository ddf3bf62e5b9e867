//! openraft's own tests of a storage, on ours.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::simulation::SimTypes;
use crate::snapshots::Snapshots;
use crate::state_machine::{Machine, MakeBytes, StateMachine};
use crate::types::{Committed, State};
use kafkalite_log::storage::{RealStorage, Storage};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{AsyncRuntime, StorageError};
use openraft_rt_sim::SimRuntime;
use tempfile::TempDir;

/// An empty state: the tests apply no records.
struct Empty;

impl StateMachine for Empty {
    fn apply(&mut self, _: Committed) -> Result<(), String> {
        Err("no test applies records".to_owned())
    }

    fn snapshot(&self) -> MakeBytes {
        Box::new(|| b"empty".to_vec())
    }

    fn restore(&mut self, state: &State) -> Result<(), String> {
        (&state.bytes[..] == b"empty").then_some(()).ok_or_else(|| "not empty".to_owned())
    }
}

struct Stores;

impl StoreBuilder<SimTypes, LogStore, Machine, TempDir> for Stores {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<SimTypes>> {
        let temp = tempfile::tempdir().unwrap();
        let disk = crate::simulation::slow_disk(crate::simulation::Rng::new(1));
        let storage: Arc<dyn Storage> = Arc::new(RealStorage);
        let snapshots = Snapshots::new(Arc::clone(&storage), temp.path());
        let machine = Machine::open(Box::new(Empty), snapshots, disk.clone(), 1 << 20).unwrap();
        let (journal, state) = Journal::open(storage, temp.path(), 500).unwrap();
        Ok((temp, LogStore::new(journal, state, disk), machine))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    let mut runtime = SimRuntime::with_seed(1);
    runtime.block_on(Suite::test_all(Stores)).unwrap();
}
