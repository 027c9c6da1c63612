//! Random values from a seed: the same seed gives the same values on every machine.

use std::collections::BTreeMap;

use outlive_core::query::Filter;
use outlive_core::status::StatusKind;
use outlive_core::time::Timestamp;

/// A stream of numbers (SplitMix64).
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

    /// From 0 up to but not including `end`, which must be positive.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % end.unsigned_abs()).unwrap_or(0)
    }

    /// True once in `often` times.
    pub(crate) fn is(&mut self, often: u64) -> bool {
        self.next().is_multiple_of(often)
    }

    /// Some of it, or nothing, half the time each.
    pub(crate) fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.is(2).then_some(value)
    }

    pub(crate) fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        let index = self.next() % among.len() as u64;
        among[usize::try_from(index).unwrap_or(0)].clone()
    }

    /// An id that shares its beginning with others.
    pub(crate) fn id(&mut self, i: usize) -> String {
        format!("{}{i}", self.pick(&PREFIXES))
    }

    pub(crate) fn tags(&mut self) -> BTreeMap<String, String> {
        let mut tags = BTreeMap::new();
        for key in ["shop", "size"] {
            if self.is(2) {
                tags.insert(key.to_owned(), self.pick(&["paris", "big", ""]).to_owned());
            }
        }
        tags
    }

    pub(crate) fn filter(&mut self) -> Filter {
        let mut filter = Filter::new();
        if self.is(3) {
            filter = filter.workflow(self.pick(&["checkout", "refund", "none"]));
        }
        while self.is(2) {
            filter = filter.status(self.pick(&StatusKind::ALL));
        }
        if self.is(3) {
            filter = filter.id_prefix(self.pick(&PREFIXES));
        }
        if self.is(3) {
            filter = filter.created_from(Timestamp::from_millis(self.below(20)));
        }
        if self.is(3) {
            filter = filter.created_before(Timestamp::from_millis(self.below(20)));
        }
        if self.is(3) {
            filter.tags = self.tags();
        }
        filter
    }
}

const PREFIXES: [&str; 6] = ["a", "a%", "a_", "ü", "Ü", "🦀"];
