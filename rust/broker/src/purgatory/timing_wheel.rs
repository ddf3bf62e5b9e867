//! A hierarchical timing wheel: pure, told the time, never asking for it.
//!
//! Three levels of 512 slots; a slot of level `l` spans `512^l` ms, so the levels reach 512 ms, 4.4
//! minutes and 37 hours. An entry lies in the lowest level whose ring still reaches its deadline,
//! and moves down a level when its slot's time comes. An entry beyond 37 hours waits in the last
//! slot and is put back from there. Insert and cancel are O(1): slots are doubly linked lists
//! threaded through one slab, and cancelling unlinks, so no purge pass exists. A bitmap over each
//! level's slots finds the next slot in use. So the owner of the wheel sleeps exactly until then,
//! and an idle wheel costs nothing.
//!
//! Source: Varghese and Lauck, "Hashed and hierarchical timing wheels"; the 1 ms tick is that of
//! Kafka's `SystemTimer`.

#[cfg(test)]
mod tests;

const SLOT_BITS: u32 = 9;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 3;
const WORDS: usize = SLOTS / 64;
/// No entry: the end of a list, or an empty one.
const NIL: u32 = u32::MAX;

/// Names one inserted entry. A later entry in the same place has another generation, so a stale
/// id cancels nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    deadline_ms: u64,
    /// `None` while the entry is free.
    value: Option<T>,
    generation: u32,
    level: u8,
    slot: u16,
    previous: u32,
    /// The next entry of the slot, or of the free list.
    next: u32,
}

#[derive(Debug)]
struct Level {
    heads: Box<[u32; SLOTS]>,
    occupied: [u64; WORDS],
}

impl Level {
    fn new() -> Self {
        Self { heads: Box::new([NIL; SLOTS]), occupied: [0; WORDS] }
    }

    /// Slots ahead of `current` (1 to 511) until one that holds anything.
    fn distance_to_next(&self, current: usize) -> Option<u64> {
        let start = (current + 1) % SLOTS;
        // The word of `start` comes first without the bits before it, and last with them alone.
        for step in 0..=WORDS {
            let word = (start / 64 + step) % WORDS;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == WORDS {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return Some(((slot + SLOTS - current) % SLOTS) as u64);
            }
        }
        None
    }
}

/// Values waiting for their deadlines, in milliseconds of whatever clock the owner follows.
#[derive(Debug)]
pub struct TimingWheel<T> {
    now_ms: u64,
    levels: [Level; LEVELS],
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

impl<T> TimingWheel<T> {
    /// An empty wheel that stands at `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            levels: [Level::new(), Level::new(), Level::new()],
            entries: Vec::new(),
            free: NIL,
            len: 0,
        }
    }

    /// How many entries wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `value`, to expire at the first `advance` to `deadline_ms` or later. A deadline that
    /// has passed expires one millisecond from the wheel's time.
    ///
    /// # Panics
    /// When more than 2^32 - 1 entries wait: memory ran out long before.
    pub fn insert(&mut self, deadline_ms: u64, value: T) -> TimerId {
        let index = if self.free == NIL {
            let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 timers fit");
            self.entries.push(Entry {
                deadline_ms,
                value: Some(value),
                generation: 0,
                level: 0,
                slot: 0,
                previous: NIL,
                next: NIL,
            });
            index
        } else {
            let index = self.free;
            let entry = &mut self.entries[index as usize];
            self.free = entry.next;
            entry.deadline_ms = deadline_ms;
            entry.value = Some(value);
            index
        };
        self.len += 1;
        self.link(index);
        TimerId { index, generation: self.entries[index as usize].generation }
    }

    /// Takes an entry out before its deadline; `None` if it expired or was cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation != id.generation || entry.value.is_none() {
            return None;
        }
        self.unlink(id.index);
        self.release(id.index)
    }

    /// When `advance` has something to do next: a time at or before the earliest deadline, and
    /// later than the wheel's own. `None` while nothing waits.
    #[must_use]
    pub fn next_event_ms(&self) -> Option<u64> {
        let events = self.levels.iter().enumerate().filter_map(|(l, level)| {
            let shift = SLOT_BITS * l as u32;
            let tick = self.now_ms >> shift;
            let ahead = level.distance_to_next((tick as usize) & (SLOTS - 1))?;
            Some((tick + ahead) << shift)
        });
        events.min()
    }

    /// Moves the wheel to `now_ms` and calls `expire` with every value whose deadline is not later,
    /// in the order of their deadlines. Time never moves back.
    pub fn advance(&mut self, now_ms: u64, mut expire: impl FnMut(T)) {
        while let Some(event_ms) = self.next_event_ms().filter(|&event| event <= now_ms) {
            self.now_ms = event_ms;
            // From the top: what comes down a level may have to come down another at once.
            for l in (0..LEVELS).rev() {
                let shift = SLOT_BITS * l as u32;
                if event_ms & ((1 << shift) - 1) == 0 {
                    self.empty_slot(l, (event_ms >> shift) as usize & (SLOTS - 1), &mut expire);
                }
            }
        }
        self.now_ms = self.now_ms.max(now_ms);
    }

    fn empty_slot(&mut self, level: usize, slot: usize, expire: &mut impl FnMut(T)) {
        let mut index = self.levels[level].heads[slot];
        self.levels[level].heads[slot] = NIL;
        self.levels[level].occupied[slot / 64] &= !(1 << (slot % 64));
        while index != NIL {
            let next = self.entries[index as usize].next;
            if self.entries[index as usize].deadline_ms <= self.now_ms {
                if let Some(value) = self.release(index) {
                    expire(value);
                }
            } else {
                self.link(index);
            }
            index = next;
        }
    }

    /// Puts an entry into the lowest level whose ring reaches its deadline.
    fn link(&mut self, index: u32) {
        let deadline_ms = self.entries[index as usize].deadline_ms.max(self.now_ms + 1);
        let mut level = 0;
        let mut ahead = deadline_ms - self.now_ms;
        while ahead >= SLOTS as u64 && level + 1 < LEVELS {
            level += 1;
            let shift = SLOT_BITS * level as u32;
            ahead = (deadline_ms >> shift) - (self.now_ms >> shift);
        }
        let tick = (self.now_ms >> (SLOT_BITS * level as u32)) + ahead.min(SLOTS as u64 - 1);
        let slot = tick as usize & (SLOTS - 1);
        let head = self.levels[level].heads[slot];
        self.levels[level].heads[slot] = index;
        self.levels[level].occupied[slot / 64] |= 1 << (slot % 64);
        if head != NIL {
            self.entries[head as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        entry.level = level as u8;
        entry.slot = slot as u16;
        entry.previous = NIL;
        entry.next = head;
    }

    fn unlink(&mut self, index: u32) {
        let Entry { level, slot, previous, next, .. } = self.entries[index as usize];
        if next != NIL {
            self.entries[next as usize].previous = previous;
        }
        if previous != NIL {
            self.entries[previous as usize].next = next;
            return;
        }
        let (level, slot) = (&mut self.levels[level as usize], slot as usize);
        level.heads[slot] = next;
        if next == NIL {
            level.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        entry.value.take()
    }
}
