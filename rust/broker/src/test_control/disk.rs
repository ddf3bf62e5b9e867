//! A disk that fails, is full or is slow on command: the file system of a broker under test.
//!
//! Only the files of records are struck, so that a test can count. Indexes, checkpoints and the log
//! of the metadata stay sound, and the broker keeps running.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kafkalite_log::storage::{DirEntry, OpenMode, Storage, StorageFile};
use rustix::io::Errno;

use super::fault::Fault;
use super::spec::{Disk, Kind, Operation, Stage};
use crate::metadata::CLUSTER_METADATA_TOPIC;

/// The faults of the disk that are in force.
#[derive(Debug, Default)]
pub(super) struct DiskFaults {
    faults: ArcSwap<Vec<Arc<Fault>>>,
}

impl DiskFaults {
    /// Takes over those of `faults` that are of the disk.
    pub fn follow(&self, faults: &[Arc<Fault>]) {
        let is_of_disk = |fault: &&Arc<Fault>| {
            let spec = &fault.checked.spec;
            spec.kind == Kind::Disk || spec.stage == Some(Stage::Log)
        };
        self.faults.store(Arc::new(faults.iter().filter(is_of_disk).cloned().collect()));
    }

    /// Lets faults strike an operation on the file at `path`.
    fn strike(&self, path: &Path, operation: Operation) -> io::Result<()> {
        let faults = self.faults.load();
        if faults.is_empty() {
            return Ok(());
        }
        let Some((topic, partition)) = partition_of(path) else { return Ok(()) };
        for fault in faults.iter() {
            let spec = &fault.checked.spec;
            let is_hit = spec.topic.as_deref().is_none_or(|wanted| wanted == topic)
                && spec.partition.is_none_or(|wanted| wanted == partition);
            let is_asked = match spec.operation {
                Some(wanted) => wanted == operation,
                None => operation != Operation::Read,
            };
            if !is_hit || !is_asked {
                continue;
            }
            match spec.disk {
                None if operation == Operation::Write => {
                    fault.fires();
                    fault.stand_still(None);
                }
                None => {}
                Some(Disk::Full) if operation != Operation::Write => {}
                Some(_) if !fault.fires() => {}
                Some(Disk::Full) => return Err(Errno::NOSPC.into()),
                Some(Disk::Error) => return Err(Errno::IO.into()),
                Some(Disk::Slow) => {
                    let ms = u64::from(spec.ms.unwrap_or(0));
                    fault.stand_still(Some(Duration::from_millis(ms)));
                }
            }
        }
        Ok(())
    }
}

/// The partition whose records are in the file at `path`.
fn partition_of(path: &Path) -> Option<(&str, i32)> {
    if path.extension()? != "log" {
        return None;
    }
    let directory = path.parent()?.file_name()?.to_str()?;
    let (topic, partition) = directory.rsplit_once('-')?;
    let partition = partition.parse().ok()?;
    (topic != CLUSTER_METADATA_TOPIC).then_some((topic, partition))
}

/// The file system of a broker under test.
#[derive(Debug)]
pub(super) struct TestedStorage {
    pub inner: Arc<dyn Storage>,
    pub faults: Arc<DiskFaults>,
}

#[derive(Debug)]
struct TestedFile {
    inner: Box<dyn StorageFile>,
    path: PathBuf,
    faults: Arc<DiskFaults>,
}

impl StorageFile for TestedFile {
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.faults.strike(&self.path, Operation::Write)?;
        self.inner.write_all_at(buffers, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.faults.strike(&self.path, Operation::Read)?;
        self.inner.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.strike(&self.path, Operation::Sync)?;
        self.inner.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.inner.set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Storage for TestedStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let inner = self.inner.open(path, mode)?;
        let (path, faults) = (path.to_owned(), Arc::clone(&self.faults));
        Ok(Box::new(TestedFile { inner, path, faults }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_records_are_struck() {
        let of = |path| partition_of(Path::new(path));
        assert_eq!(of("/d/orders-3/00000000000000000000.log"), Some(("orders", 3)));
        assert_eq!(of("/d/a-b-0/00000000000000000000.log"), Some(("a-b", 0)));
        assert_eq!(of("/d/orders-3/00000000000000000000.index"), None);
        assert_eq!(of("/d/orders-3/partition.metadata"), None);
        assert_eq!(of("/d/__cluster_metadata-0/00000000000000000000.log"), None);
        assert_eq!(of("/d/meta.properties"), None);
    }
}
