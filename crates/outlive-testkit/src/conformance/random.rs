//! Random ids, tags and filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::origin::{RunOrigin, TraceContext};
use outlive_core::status::StatusKind;
use outlive_core::store::query::Filter;
use outlive_core::time::Timestamp;

use crate::random::Random;

impl Random {
    /// Returns an id that shares its prefix with others.
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

    pub(crate) fn origin(&mut self) -> Option<Arc<RunOrigin>> {
        let version = self.is(2).then(|| Name::recorded(self.pick(&VERSIONS)));
        let trace =
            self.is(4).then(|| TraceContext::recorded("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        RunOrigin::new(version, trace)
    }

    pub(crate) fn filter(&mut self) -> Filter {
        let mut filter = self.pick(&[Filter::runs(), Filter::jobs(), Filter::all()]);
        if self.is(3) {
            filter = filter.workflow(self.pick(&["checkout", "refund", "task:refund", "none"]));
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
            filter = filter.version(self.pick(&VERSIONS));
        }
        if self.is(3) {
            filter.tags = self.tags();
        }
        filter
    }
}

const VERSIONS: [&str; 4] = ["1", "1.0", "%", "ü"];
const PREFIXES: [&str; 6] = ["a", "a%", "a_", "ü", "Ü", "🦀"];
