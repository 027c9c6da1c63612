//! Formats times and durations for people. All times are UTC.

use std::time::{Duration, SystemTime};

use outlive::{RunInfo, Status, Timestamp};

#[expect(clippy::disallowed_methods, reason = "the command line uses the time of the machine")]
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Returns the date and the time to the second: `2026-10-04 12:03:04`.
pub(crate) fn moment(at: Timestamp) -> String {
    match parts(at) {
        Some((date, time)) => format!("{date} {}", &time[..SECOND]),
        None => at.to_string(),
    }
}

/// Returns the time to the second, with the date if it is not on `day`.
pub(crate) fn clock(at: Timestamp, day: Timestamp) -> String {
    match (parts(at), parts(day)) {
        (Some((date, time)), Some((today, _))) if date == today => time[..SECOND].to_owned(),
        _ => moment(at),
    }
}

/// Returns the time to the millisecond, with the date if it is not on `day`.
pub(crate) fn exact(at: Timestamp, day: Timestamp) -> String {
    match (parts(at), parts(day)) {
        (Some((date, time)), Some((today, _))) if date == today => time,
        (Some((date, time)), _) => format!("{date} {time}"),
        _ => at.to_string(),
    }
}

/// Returns a duration in its one or two largest units: `350 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`.
pub(crate) fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{}.{} s", seconds, duration.subsec_millis() / 100),
        60..3_600 => two(seconds, (60, "min"), (1, "s")),
        3_600..86_400 => two(seconds, (3_600, "h"), (60, "min")),
        _ => two(seconds, (86_400, "d"), (3_600, "h")),
    }
}

/// Returns the time to the second, with the date if it is not today, or a dash if there is none.
pub(crate) fn when(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "-".into(), |at| clock(at, now))
}

/// Returns a status with what it waits for: `sleeping (until 12:03:04)`, `waiting (approval, 2d 23h left)`.
pub(crate) fn status(run: &RunInfo, now: Timestamp) -> String {
    match run.status {
        Status::Sleeping { until } => format!("sleeping (until {})", clock(until, now)),
        _ => run.status_text(now),
    }
}

/// Returns the note of a run. What a paused run waits for is in its status, unless there are several things.
pub(crate) fn note(run: &RunInfo) -> Option<&str> {
    run.note.as_deref().filter(|note| !run.status.is_idle() || note.contains(", "))
}

fn two(seconds: u64, (large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match seconds % large / small {
        0 => format!("{} {large_unit}", seconds / large),
        rest => format!("{} {large_unit} {rest} {small_unit}", seconds / large),
    }
}

/// The length of `12:03:04`; the milliseconds follow.
const SECOND: usize = 8;

/// Returns the date and `12:03:04.000`, if the time is in the calendar.
fn parts(at: Timestamp) -> Option<(String, String)> {
    let text = at.to_string();
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (second, fraction) = time.split_once('.').unwrap_or((time, ""));
    (second.len() == SECOND).then(|| (date.to_owned(), format!("{second}.{fraction:0<3}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(43_200_050);

    #[test]
    fn date_is_shown_unless_it_is_the_reference_day() {
        let tomorrow = Timestamp::from_millis(86_400_000 + 1_000);
        assert_eq!((exact(NOON, NOON), clock(NOON, NOON)), ("12:00:00.050".into(), "12:00:00".into()));
        assert_eq!(exact(tomorrow, NOON), "1970-01-02 00:00:01.000");
        assert_eq!((clock(tomorrow, NOON), moment(NOON)), ("1970-01-02 00:00:01".into(), "1970-01-01 12:00:00".into()));
    }

    #[test]
    fn time_outside_the_calendar_is_shown_in_milliseconds() {
        assert_eq!(exact(Timestamp::MAX, NOON), format!("{} ms", i64::MAX));
        assert_eq!(moment(Timestamp::MIN), format!("{} ms", i64::MIN));
    }

    #[test]
    fn length_is_shown_in_its_two_largest_units() {
        let table = [
            (0, "0 ms"),
            (350, "350 ms"),
            (1_250, "1.2 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (356_400_000, "4 d 3 h"),
        ];
        for (millis, expected) in table {
            assert_eq!(length(Duration::from_millis(millis)), expected);
        }
    }
}
