//! Maps matches of a pattern in local time to timestamps, including where clocks change.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::pattern::Pattern;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// Longer than the local times of two offsets can ever differ.
const APART: SignedDuration = SignedDuration::from_hours(72);

/// The times at which a pattern matches in a zone. All of them are whole seconds.
pub(super) struct Moments<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) zone: &'a TimeZone,
}

impl Moments<'_> {
    /// Returns the first match after `after`.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if self.pattern.is_hourly {
            return self.next_elapsed(after.checked_add(SECOND).ok()?);
        }
        // Later local times map to later timestamps, except during the second pass of a repeated period.
        let local = self.zone.to_datetime(after);
        let from = match self.second_pass_end(after, local) {
            Some(end) => end,
            None => local.checked_add(SECOND).ok()?,
        };
        self.once(self.pattern.next(from)?)
    }

    /// Returns the last match at or before `until`.
    pub(super) fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        if self.pattern.is_hourly {
            return self.latest_elapsed(until);
        }
        let local = self.zone.to_datetime(until);
        let last = match self.second_pass_end(until, local) {
            Some(end) => end.checked_sub(SECOND).ok()?,
            None => local,
        };
        self.once(self.pattern.latest(last)?)
    }

    /// Maps a local time to one timestamp: the first of two in a fold, or the end of the gap it falls in.
    fn once(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => self.change_after(after.to_timestamp(local).ok()?),
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        }
    }

    /// Returns the local time at which the fold ends, if `at` is in its second pass.
    fn second_pass_end(&self, at: Timestamp, local: DateTime) -> Option<DateTime> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, after } if self.zone.to_offset(at) == after => {
                Some(before.to_datetime(self.change_after(before.to_timestamp(local).ok()?)?))
            }
            _ => None,
        }
    }

    /// Returns the first timestamp at or after `from` whose local time matches. Between two clock changes, local time
    /// is elapsed time.
    fn next_elapsed(&self, mut from: Timestamp) -> Option<Timestamp> {
        loop {
            let offset = self.zone.to_offset(from);
            let found = offset.to_timestamp(self.pattern.next(offset.to_datetime(from))?).ok()?;
            match self.change_after(from) {
                // Nothing matches between the start of a search and shortly before its result, so clock changes in
                // between are skipped, except for one right after the start, which may set the clock back to before the
                // start.
                Some(change) if change <= found && change.duration_since(from) > APART => {
                    from = change.max(found.checked_sub(APART).ok()?);
                }
                Some(change) if change <= found => from = change,
                _ => return Some(found),
            }
        }
    }

    /// Returns the last timestamp at or before `until` whose local time matches.
    fn latest_elapsed(&self, mut until: Timestamp) -> Option<Timestamp> {
        loop {
            let offset = self.zone.to_offset(until);
            let found = offset.to_timestamp(self.pattern.latest(offset.to_datetime(until))?).ok()?;
            let Some(change) = self.changes_after(found).take_while(|change| *change <= until).last() else {
                return Some(found);
            };
            let before = change.checked_sub(SECOND).ok()?;
            let is_far = until.duration_since(change) > APART;
            until = if is_far { before.min(found.checked_add(APART).ok()?) } else { before };
        }
    }

    fn change_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.changes_after(at).next()
    }

    /// Returns clock changes after `at`. Searching backward is avoided: jiff 0.2.39 returns a wrong change where the
    /// table of a zone ends and its rule begins.
    fn changes_after(&self, at: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.zone.following(at).map(|change| change.timestamp())
    }
}
