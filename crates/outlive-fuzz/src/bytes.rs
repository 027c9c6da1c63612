//! Turns bytes into choices: each choice consumes some of them, and once they are used up the simplest one is made.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use outlive_core::time::Timestamp;

pub(crate) struct Bytes<'a>(Unstructured<'a>);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn any<T: Arbitrary<'a> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// Returns a number from 0 up to but not including `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.int_in_range(0..=end - 1).unwrap_or(0)
    }

    /// Returns `true` once in `often` times on average.
    pub(crate) fn is(&mut self, often: u8) -> bool {
        self.0.int_in_range(0..=often - 1).unwrap_or(0) == often - 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[usize::try_from(self.below(among.len() as u64)).unwrap_or(0)].clone()
    }

    pub(crate) fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.is(2).then(|| value(self))
    }

    pub(crate) fn text(&mut self) -> String {
        self.any::<String>()
    }

    /// Returns a moment near the others, or any.
    pub(crate) fn moment(&mut self) -> Timestamp {
        let millis = if self.is(8) { self.any::<i64>() } else { i64::from(self.any::<u8>()) };
        Timestamp::from_millis(millis)
    }

    /// Returns some milliseconds, or any duration.
    pub(crate) fn duration(&mut self) -> Duration {
        if self.is(4) {
            Duration::new(self.any::<u64>(), u32::try_from(self.below(1_000_000_000)).unwrap_or(0))
        } else {
            Duration::from_millis(u64::from(self.any::<u16>()))
        }
    }
}
