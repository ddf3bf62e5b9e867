//! What happened, as a hash, and on request as text.
//!
//! Every step goes into the hash. Two runs of one seed have the same hash, or something in them
//! depends on more than the seed.

use std::fmt::Write as _;

/// FNV-1a over 64 bits, one word at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds one number.
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
        self.add(bytes.len() as u64);
    }
}

/// The record of one run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: Hash,
    steps: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace; with `keeps_text` it also keeps a line for each step.
    #[must_use]
    pub fn new(keeps_text: bool) -> Self {
        Self { lines: keeps_text.then(Vec::new), ..Self::default() }
    }

    /// Notes one step at `now_ms`: `words` go into the hash, `text` into the lines.
    pub fn step(&mut self, now_ms: u64, words: &[u64], text: impl FnOnce() -> String) {
        self.steps += 1;
        self.hash.add(now_ms);
        for word in words {
            self.hash.add(*word);
        }
        let steps = self.steps;
        if let Some(lines) = &mut self.lines {
            let mut line = format!("{steps:>6} {now_ms:>6} ms  ");
            // Writing to a String cannot fail.
            let _ = line.write_str(&text());
            lines.push(line);
        }
    }

    /// How many steps there were.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The hash of all steps so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.0
    }

    /// The lines so far; empty unless they are kept.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
