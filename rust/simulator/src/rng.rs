//! Random numbers that depend on the seed alone.
//!
//! Each purpose draws from a stream of its own, so that switching one kind of fault off changes
//! nothing about the others. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators" (SplitMix64).

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream `purpose` of `seed`.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut mixer = Self(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(mixer.word())
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, without, `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.word() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether something happens that happens `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of `items`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        items.get(at)
    }
}
