//! What of the files of a `FaultyStorage` is on the disk, and what a power cut does to the rest.
//!
//! Files and directories are known by an identity, and the names in a directory by that of the
//! directory. A rename of a directory gives other paths to all below it, and a path may be given
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use kafkalite_log::storage::{OpenMode, RealStorage, Storage};

/// A file or a directory; never given again.
pub type Id = u64;
/// A name in a directory.
type Name = (Id, OsString);
/// What a change is about: a name, or the file itself.
type Touched = (Id, Option<OsString>);

/// What a power cut leaves of bytes at the end of a file that were never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// None of them.
    Gone,
    /// The first half.
    Half,
    /// As many zeroes: the length was on the disk before the bytes.
    Zeroes,
}

#[derive(Debug, Default)]
pub struct OnDisk {
    last_id: Id,
    /// Where each file and directory is that was met.
    places: BTreeMap<PathBuf, Id>,
    /// Bytes of each file that a power cut leaves.
    synced: BTreeMap<Id, u64>,
    /// Names that a power cut takes away.
    unsynced_names: BTreeSet<Name>,
    /// What a power cut may undo, in the order in which it was done.
    unsynced_changes: Vec<Change>,
}

/// A change that no sync followed, and what undoes it.
#[derive(Debug)]
enum Change {
    /// The file lost these bytes, from this position on.
    Cut(Id, u64, Vec<u8>),
    /// A file with these bytes was removed.
    Removed(Name, Id, Vec<u8>),
    Renamed(Rename),
}

#[derive(Debug)]
struct Rename {
    id: Id,
    from: Name,
    to: Name,
    /// A power cut would have taken the first name, too.
    was_unsynced: bool,
    /// The file that was there before, with these bytes.
    replaced: Option<(Id, Vec<u8>)>,
}

impl Change {
    fn touches(&self) -> Vec<Touched> {
        let named = |name: &Name| (name.0, Some(name.1.clone()));
        match self {
            Self::Cut(id, ..) => vec![(*id, None)],
            Self::Removed(name, id, _) => vec![named(name), (*id, None)],
            Self::Renamed(one) => vec![named(&one.from), named(&one.to), (one.id, None)],
        }
    }

    /// Whether a sync of the directory makes it last.
    fn is_name_in(&self, directory: Id) -> bool {
        match self {
            Self::Cut(..) => false,
            Self::Removed(name, ..) => name.0 == directory,
            Self::Renamed(one) => one.from.0 == directory,
        }
    }
}

impl OnDisk {
    fn new_id(&mut self) -> Id {
        self.last_id += 1;
        self.last_id
    }

    fn id(&mut self, path: &Path) -> Id {
        let known = self.places.get(path).copied();
        known.unwrap_or_else(|| self.met_at(path))
    }

    /// Something new is at `path`.
    fn met_at(&mut self, path: &Path) -> Id {
        let id = self.new_id();
        self.places.insert(path.to_path_buf(), id);
        id
    }

    fn name(&mut self, path: &Path) -> Name {
        let directory = self.id(path.parent().unwrap_or(Path::new("")));
        (directory, path.file_name().unwrap_or_default().to_owned())
    }

    /// Where it is by now; `None` if it is gone.
    fn place(&self, id: Id) -> Option<PathBuf> {
        self.places.iter().find(|(_, one)| **one == id).map(|(path, _)| path.clone())
    }

    fn place_of_name(&self, name: &Name) -> Option<PathBuf> {
        Some(self.place(name.0)?.join(&name.1))
    }

    pub fn file_created(&mut self, path: &Path) -> Id {
        let id = self.met_at(path);
        self.synced.insert(id, 0);
        let name = self.name(path);
        self.unsynced_names.insert(name);
        id
    }

    /// A file that was there before is opened. If it is to be written, it has `length` bytes by
    /// now, which are safe unless they are known to be unsafe.
    pub fn file_opened(&mut self, path: &Path, length: Option<u64>) -> Id {
        let id = self.id(path);
        if let Some(length) = length {
            self.synced.entry(id).or_insert(length);
        }
        id
    }

    pub fn directory_created(&mut self, path: &Path) {
        self.met_at(path);
        let name = self.name(path);
        self.unsynced_names.insert(name);
    }

    pub fn file_synced(&mut self, id: Id, length: u64) {
        self.synced.insert(id, length);
        let is_other = |change: &Change| !matches!(change, Change::Cut(of, ..) if *of == id);
        self.unsynced_changes.retain(is_other);
    }

    pub fn directory_synced(&mut self, path: &Path) {
        let directory = self.id(path);
        self.unsynced_names.retain(|name| name.0 != directory);
        self.unsynced_changes.retain(|change| !change.is_name_in(directory));
    }

    /// The file loses `bytes`, which are those from `length` on.
    pub fn file_cut(&mut self, id: Id, length: u64, bytes: Vec<u8>) {
        let bytes = self.safe_part(id, length, bytes);
        if !bytes.is_empty() {
            self.unsynced_changes.push(Change::Cut(id, length, bytes));
        }
        if let Some(synced) = self.synced.get_mut(&id) {
            *synced = length.min(*synced);
        }
    }

    /// Bytes that were not safe before do not come back.
    fn safe_part(&self, id: Id, from: u64, mut bytes: Vec<u8>) -> Vec<u8> {
        let safe = self.synced.get(&id).copied().unwrap_or(u64::MAX);
        bytes.truncate(usize::try_from(safe.saturating_sub(from)).unwrap_or(usize::MAX));
        bytes
    }

    /// `from` is called `to` by now, in the place of a file with the bytes `replaced`.
    pub fn renamed(&mut self, from: &Path, to: &Path, replaced: Option<Vec<u8>>) {
        let (old, new) = (self.name(from), self.name(to));
        let replaced = replaced.map(|bytes| {
            let id = self.id(to);
            (id, self.safe_part(id, 0, bytes))
        });
        let id = self.id(from);
        let was_unsynced = self.unsynced_names.remove(&old);
        if was_unsynced && !self.synced.contains_key(&id) {
            self.unsynced_names.insert(new.clone());
        }
        self.move_places(from, to);
        let rename = Rename { id, from: old, to: new, was_unsynced, replaced };
        self.unsynced_changes.push(Change::Renamed(rename));
    }

    pub fn file_removed(&mut self, path: &Path, bytes: Vec<u8>) {
        let (name, id) = (self.name(path), self.id(path));
        self.places.remove(path);
        if !self.unsynced_names.remove(&name) {
            let bytes = self.safe_part(id, 0, bytes);
            self.unsynced_changes.push(Change::Removed(name, id, bytes));
        }
    }

    /// A power cut does not bring it back, and has nothing to take from it.
    pub fn directory_removed(&mut self, path: &Path) {
        let name = self.name(path);
        self.unsynced_names.remove(&name);
        self.forget_places(path);
    }

    fn forget_places(&mut self, path: &Path) {
        self.places.retain(|place, _| !place.starts_with(path));
    }

    fn move_places(&mut self, from: &Path, to: &Path) {
        self.forget_places(to);
        let moved = |path: PathBuf| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
            Ok(rest) => to.join(rest),
            Err(_) => path,
        };
        let places = std::mem::take(&mut self.places).into_iter();
        self.places = places.map(|(path, id)| (moved(path), id)).collect();
    }

    fn undo(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Cut(id, from, bytes) => {
                let Some(path) = self.place(id) else { return Ok(()) };
                let file = RealStorage.open(&path, OpenMode::Write)?;
                file.write_all_at(&mut [IoSlice::new(&bytes)], from)?;
                self.synced.insert(id, from + bytes.len() as u64);
            }
            Change::Removed(name, id, bytes) => self.put_back(&name, id, &bytes)?,
            Change::Renamed(rename) => self.rename_back(rename)?,
        }
        Ok(())
    }

    fn put_back(&mut self, name: &Name, id: Id, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = self.place_of_name(name) else { return Ok(()) };
        std::fs::write(&path, bytes)?;
        self.unsynced_names.remove(name);
        self.places.insert(path, id);
        self.synced.insert(id, bytes.len() as u64);
        Ok(())
    }

    fn rename_back(&mut self, rename: Rename) -> io::Result<()> {
        let places = [&rename.from, &rename.to].map(|name| self.place_of_name(name));
        let [Some(from), Some(to)] = places else { return Ok(()) };
        if !to.exists() {
            return Ok(());
        }
        // What was made under the old name since then is lost with it.
        if to.is_dir() && from.exists() {
            std::fs::remove_dir_all(&from)?;
        }
        std::fs::rename(&to, &from)?;
        self.move_places(&to, &from);
        self.unsynced_names.remove(&rename.to);
        self.unsynced_names.remove(&rename.from);
        if rename.was_unsynced {
            self.unsynced_names.insert(rename.from);
        }
        match rename.replaced {
            Some((id, bytes)) => self.put_back(&rename.to, id, &bytes),
            None => Ok(()),
        }
    }

    /// Undoes what is not synced, newest first, if `undoes` answers true. A change stays if a later
    /// one of the same file or name stays.
    pub fn undo_changes(&mut self, mut undoes: impl FnMut() -> bool) -> io::Result<()> {
        let mut kept: BTreeSet<Touched> = BTreeSet::new();
        while let Some(change) = self.unsynced_changes.pop() {
            let touched = change.touches();
            if undoes() && !touched.iter().any(|one| kept.contains(one)) {
                self.undo(change)?;
            } else {
                kept.extend(touched);
            }
        }
        Ok(())
    }

    /// Takes away new names that are not synced, if `takes` answers true.
    pub fn take_names(&mut self, mut takes: impl FnMut() -> bool) -> io::Result<()> {
        for name in std::mem::take(&mut self.unsynced_names) {
            let Some(path) = self.place_of_name(&name).filter(|_| takes()) else { continue };
            if path.is_file() {
                std::fs::remove_file(&path)?;
            } else if path.is_dir() {
                std::fs::remove_dir_all(&path)?;
            }
            self.forget_places(&path);
        }
        Ok(())
    }

    /// Takes away bytes at the ends of files that are not synced.
    pub fn take_tails(&mut self, tail: Tail) -> io::Result<()> {
        for (id, synced) in std::mem::take(&mut self.synced) {
            let Some(path) = self.place(id) else { continue };
            let mut file = match std::fs::OpenOptions::new().append(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let unsafe_bytes = file.metadata()?.len().saturating_sub(synced);
            if unsafe_bytes == 0 {
                continue;
            }
            file.set_len(if tail == Tail::Half { synced + unsafe_bytes / 2 } else { synced })?;
            if tail == Tail::Zeroes {
                let zeroes = vec![0; usize::try_from(unsafe_bytes).map_err(io::Error::other)?];
                file.write_all(&zeroes)?;
            }
        }
        Ok(())
    }
}
