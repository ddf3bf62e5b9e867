//! The last offset of each key, by a 128-bit hash of the key.
//!
//! Two keys with one hash would cost a record its life. The hash is SipHash with secret random
//! keys, twice: with a billion keys the chance is 10^-21, and an attacker cannot aim for it.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use kafkalite_protocol::types::Offset;

/// The key is a hash already; half of it is as good as another hash of it.
#[derive(Default)]
struct Lower(u64);

impl Hasher for Lower {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u128 keys are hashed, and they call write_u128")
    }
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// See the head of this file.
pub(super) struct KeyOffsets {
    first: RandomState,
    second: RandomState,
    offsets: HashMap<u128, Offset, BuildHasherDefault<Lower>>,
    max_keys: usize,
    /// Keys of all records below were put in.
    end: Offset,
}

impl KeyOffsets {
    pub(super) fn new(max_keys: usize) -> Self {
        let (first, second) = (RandomState::new(), RandomState::new());
        let max_keys = max_keys.max(1);
        Self { first, second, offsets: HashMap::default(), max_keys, end: Offset(0) }
    }

    fn hash(&self, key: &[u8]) -> u128 {
        u128::from(self.first.hash_one(key)) << 64 | u128::from(self.second.hash_one(key))
    }

    /// Notes that `key` stands at `offset`, which is above all noted before; `false` if there is no
    /// room for one more key.
    pub(super) fn insert(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        let full = self.offsets.len() >= self.max_keys;
        match self.offsets.entry(hash) {
            Entry::Occupied(mut known) => {
                known.insert(offset);
            }
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(free) => {
                free.insert(offset);
            }
        }
        self.end = Offset(offset.0 + 1);
        true
    }

    /// Notes that all records below `end` were put in.
    pub(super) fn cover(&mut self, end: Offset) {
        self.end = self.end.max(end);
    }

    /// The offset after the last record that was put in.
    pub(super) fn end(&self) -> Offset {
        self.end
    }

    /// Whether a record of `key` above `offset` was put in.
    pub(super) fn is_replaced(&self, key: &[u8], offset: Offset) -> bool {
        self.offsets.get(&self.hash(key)).is_some_and(|last| *last > offset)
    }
}
