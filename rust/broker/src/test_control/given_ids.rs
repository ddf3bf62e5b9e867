//! The greatest producer id that any life of this broker gave out.
//!
//! A reset puts an older image back, and with it the block of producer ids. A producer of the time
//! before the reset may go on. If a new one got the same id, a log would take its records for
//! batches that were sent again. So the greatest id is noted where no reset comes: in the folder of
//! the snapshots.

use std::io;
use std::path::{Path, PathBuf};

use super::snapshots::FOLDER;
use crate::handlers::Rooms;

/// The name of the note. No snapshot has it: those have numbers.
const NOTE: &str = "producer-ids";

/// Takes over what earlier lives of the broker noted, and notes what this one gives out.
pub(super) fn keep(rooms: &Rooms) {
    let roots: Vec<PathBuf> =
        rooms.partitions.dirs().iter().map(|dir| dir.path().to_owned()).collect();
    let seen = rooms.partitions.producer_ids();
    roots.iter().filter_map(|root| read(root)).for_each(|id| seen.saw(id));
    rooms.producer_ids.on_block(Box::new(move |greatest| {
        for root in &roots {
            if let Err(error) = write(root, greatest) {
                let root = root.display();
                tracing::warn!(%error, %root, "a reset may give out producer ids again");
            }
        }
    }));
}

/// `None`: no life gave out an id, or the note cannot be read.
fn read(root: &Path) -> Option<i64> {
    std::fs::read_to_string(root.join(FOLDER).join(NOTE)).ok()?.trim().parse().ok()
}

fn write(root: &Path, greatest: i64) -> io::Result<()> {
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    let unfinished = folder.join(format!("{NOTE}.new"));
    std::fs::write(&unfinished, format!("{greatest}\n"))?;
    std::fs::rename(&unfinished, folder.join(NOTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_note_counts_and_one_that_cannot_be_read_does_not() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(read(root.path()), None);
        write(root.path(), 999).expect("it is written");
        write(root.path(), 1_999).expect("it is written");
        assert_eq!(read(root.path()), Some(1_999));
        std::fs::write(root.path().join(FOLDER).join(NOTE), "x").expect("it is written");
        assert_eq!(read(root.path()), None);
    }
}
