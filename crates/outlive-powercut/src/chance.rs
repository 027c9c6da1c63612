//! Seeded random numbers: the same seed gives the same numbers on every machine.

/// A stream of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Creates a stream seeded by these numbers, in this order.
    pub(crate) fn of<const N: usize>(parts: [u64; N]) -> Self {
        let mut mixed = Self(0);
        for part in parts {
            mixed = Self(mixed.next() ^ part);
        }
        mixed
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to but not including `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let number = self.next().checked_rem(end as u64).unwrap_or(0);
        usize::try_from(number).unwrap_or(0)
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
        among[self.below(among.len())].clone()
    }
}
