//! Seeded random numbers: the same seed gives the same numbers on every machine.

/// A stream of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to but not including `end`, which must be positive.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % end.unsigned_abs()).unwrap_or(0)
    }

    /// Returns an index into something of this length, which must not be zero.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).unwrap_or(0)
    }

    /// Returns `true` once in `often` times on average.
    pub(crate) fn is(&mut self, often: u64) -> bool {
        self.next().is_multiple_of(often)
    }

    /// Returns the value or nothing, with equal probability.
    pub(crate) fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.is(2).then_some(value)
    }

    pub(crate) fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())].clone()
    }
}
