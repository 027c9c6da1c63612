//! Parses and formats durations as people write them.

use std::fmt;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::temporal::SpanParser;

/// The longest supported duration: the range of a [`Timestamp`](crate::time::Timestamp), about 292 million years.
pub const LONGEST: Duration = Duration::from_millis(i64::MAX.unsigned_abs());

/// The examples shown in error messages.
const EXAMPLES: &str = r#""5s", "1h 30m", "2 days" or "PT5M""#;

/// Units of fixed length, with their length in nanoseconds. A day is 24 hours.
const UNITS: [(u64, &[&str]); 8] = [
    (1, &["ns", "nsec", "nsecs", "nano", "nanos", "nanosecond", "nanoseconds"]),
    (1_000, &["us", "µs", "μs", "usec", "usecs", "micro", "micros", "microsecond", "microseconds"]),
    (1_000_000, &["ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (60 * 1_000_000_000, &["m", "min", "mins", "minute", "minutes"]),
    (3_600 * 1_000_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (86_400 * 1_000_000_000, &["d", "day", "days"]),
    (604_800 * 1_000_000_000, &["w", "wk", "wks", "week", "weeks"]),
];

/// Units whose length depends on the calendar, and which a duration therefore cannot use.
const CALENDAR_UNITS: [&str; 9] = ["mo", "mos", "month", "months", "y", "yr", "yrs", "year", "years"];

/// A value that converts into a duration: a [`Duration`], a whole number of milliseconds, or text that [`parse`]
/// accepts.
///
/// ```
/// use outlive_core::duration::IntoDuration;
/// use std::time::Duration;
///
/// fn wait(time: impl IntoDuration) -> Duration {
///     time.into_duration().unwrap()
/// }
/// assert_eq!(wait("1.5 s"), Duration::from_millis(1500));
/// assert_eq!(wait(1500), Duration::from_millis(1500));
/// assert_eq!(wait(Duration::from_millis(1500)), Duration::from_millis(1500));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a duration",
    note = "use text such as \"30 seconds\", a whole number of milliseconds or a `std::time::Duration`"
)]
pub trait IntoDuration {
    /// Converts the value into a duration.
    ///
    /// # Errors
    /// If the value is negative, longer than [`LONGEST`], or text that [`parse`] rejects.
    fn into_duration(self) -> Result<Duration, DurationError>;
}

impl IntoDuration for &str {
    fn into_duration(self) -> Result<Duration, DurationError> {
        parse(self)
    }
}

impl IntoDuration for &String {
    fn into_duration(self) -> Result<Duration, DurationError> {
        parse(self)
    }
}

impl IntoDuration for String {
    fn into_duration(self) -> Result<Duration, DurationError> {
        parse(&self)
    }
}

impl IntoDuration for Duration {
    fn into_duration(self) -> Result<Duration, DurationError> {
        if self > LONGEST { Err(DurationError::new(&format!("{self:?}"), DurationProblem::Long)) } else { Ok(self) }
    }
}

macro_rules! milliseconds {
    ($($integer:ty),*) => {$(
        impl IntoDuration for $integer {
            fn into_duration(self) -> Result<Duration, DurationError> {
                from_millis(self.into())
            }
        }
    )*};
}

milliseconds!(u32, u64, i32, i64);

impl IntoDuration for usize {
    fn into_duration(self) -> Result<Duration, DurationError> {
        u64::try_from(self).unwrap_or(u64::MAX).into_duration()
    }
}

fn from_millis(millis: i128) -> Result<Duration, DurationError> {
    let problem = if millis < 0 { DurationProblem::Negative } else { DurationProblem::Long };
    i64::try_from(millis)
        .and_then(u64::try_from)
        .map(Duration::from_millis)
        .map_err(|_| DurationError::new(&millis.to_string(), problem))
}

/// Parses a duration: numbers with units (`"1h 30m"`, `"1.5 hours"`, `"2 days, 4 hours"`), ISO 8601 (`"PT5M"`), or a
/// bare whole number of milliseconds (`"1500"`). A day is 24 hours and a week is 7 days. Fractions of a nanosecond
/// round up, so a nonzero value never becomes zero.
///
/// ```
/// use outlive_core::duration::parse;
/// use std::time::Duration;
///
/// assert_eq!(parse("1h 30m").unwrap(), Duration::from_secs(5400));
/// assert_eq!(parse("1 week").unwrap(), Duration::from_secs(604_800));
/// assert_eq!(
///     parse("5 parsecs").unwrap_err().to_string(),
///     r#"duration "5 parsecs" is not valid; use a value such as "5s", "1h 30m", "2 days" or "PT5M""#,
/// );
/// ```
///
/// # Errors
/// If the text is empty, negative, not a duration, in months or years, or longer than [`LONGEST`].
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    read(text.trim()).map_err(|problem| DurationError::new(text, problem))
}

/// Formats a duration for people: `"250ms"`, `"5s"`, `"1h 30m"`, `"3d"`. Nothing is rounded, and [`parse`] reads it
/// back.
///
/// ```
/// use outlive_core::duration::{parse, text};
/// use std::time::Duration;
///
/// assert_eq!(text(Duration::from_secs(259_200)), "3d");
/// assert_eq!(text(Duration::from_millis(5_401_500)), "1h 30m 1.5s");
/// assert_eq!(parse(&text(Duration::from_secs(5400))), Ok(Duration::from_secs(5400)));
/// ```
#[must_use]
pub fn text(duration: Duration) -> String {
    let mut parts = Vec::new();
    let mut seconds = duration.as_secs();
    for (unit, label) in [(86_400, 'd'), (3_600, 'h'), (60, 'm')] {
        if seconds >= unit {
            parts.push(format!("{}{label}", seconds / unit));
            seconds %= unit;
        }
    }
    let rest = Duration::new(seconds, duration.subsec_nanos());
    if !rest.is_zero() || parts.is_empty() {
        parts.push(format!("{rest:?}"));
    }
    parts.join(" ")
}

fn read(text: &str) -> Result<Duration, DurationProblem> {
    if text.is_empty() {
        Err(DurationProblem::Empty)
    } else if text.starts_with('-') || text.ends_with(" ago") {
        Err(DurationProblem::Negative)
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        from_nanos(nanos(text, None, 1_000_000)?)
    } else if text.starts_with(['P', 'p']) {
        read_iso(text)
    } else {
        read_units(text)
    }
}

/// Parses ISO 8601 with jiff, which has two parsers: one for hours and smaller units without a limit, one for days and
/// weeks up to 20,000 years.
fn read_iso(text: &str) -> Result<Duration, DurationProblem> {
    let parser = SpanParser::new();
    if let Ok(exact) = parser.parse_unsigned_duration(text) {
        return from_nanos(exact.as_nanos());
    }
    let span = parser.parse_span(text).map_err(|_| DurationProblem::Unreadable)?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(DurationProblem::Calendar);
    }
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| DurationProblem::Unreadable)?;
    from_nanos(u128::try_from(signed.as_nanos()).map_err(|_| DurationProblem::Negative)?)
}

/// Adds up numbers with units. The parser of jiff stops at 20,000 years and has no fractions of a day.
fn read_units(text: &str) -> Result<Duration, DurationProblem> {
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (whole, after) = take(rest, |c| c.is_ascii_digit());
        let (fraction, after) = match after.strip_prefix('.').map(|digits| take(digits, |c| c.is_ascii_digit())) {
            Some((digits, after)) => (Some(digits), after),
            None => (None, after),
        };
        let (unit, after) = take(after.trim_start(), char::is_alphabetic);
        total = total.saturating_add(nanos(whole, fraction, unit_nanos(unit)?)?);
        rest = after.strip_prefix(',').filter(|more| !more.is_empty()).unwrap_or(after).trim_start();
    }
    from_nanos(total)
}

/// Splits off the leading characters that are `wanted`.
fn take(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
}

fn unit_nanos(label: &str) -> Result<u64, DurationProblem> {
    let is_it = |known: &&str| known.eq_ignore_ascii_case(label);
    if CALENDAR_UNITS.iter().any(is_it) {
        return Err(DurationProblem::Calendar);
    }
    if label == "M" {
        // Ambiguous: month or minute.
        return Err(DurationProblem::Unreadable);
    }
    UNITS
        .iter()
        .find(|(_, labels)| labels.iter().any(is_it))
        .map(|(nanos, _)| *nanos)
        .ok_or(DurationProblem::Unreadable)
}

/// Multiplies `whole.fraction` by `unit`, in integers because floats cannot represent "0.1 s" exactly.
fn nanos(whole: &str, fraction: Option<&str>, unit: u64) -> Result<u128, DurationProblem> {
    if whole.is_empty() {
        return Err(DurationProblem::Unreadable);
    }
    let units: u64 = whole.parse().map_err(|_| DurationProblem::Long)?;
    let full = u128::from(units) * u128::from(unit);
    let Some(digits) = fraction else { return Ok(full) };
    let parts: u64 = digits.parse().map_err(|_| DurationProblem::Unreadable)?;
    let parts_per_unit =
        u32::try_from(digits.len()).ok().and_then(|len| 10_u128.checked_pow(len)).ok_or(DurationProblem::Unreadable)?;
    Ok(full + (u128::from(parts) * u128::from(unit)).div_ceil(parts_per_unit))
}

fn from_nanos(nanos: u128) -> Result<Duration, DurationProblem> {
    const SECOND: u128 = 1_000_000_000;
    if nanos > LONGEST.as_nanos() {
        return Err(DurationProblem::Long);
    }
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| DurationProblem::Long)?;
    let rest = u32::try_from(nanos % SECOND).map_err(|_| DurationProblem::Long)?;
    Ok(Duration::new(seconds, rest))
}

/// Why a value is not a duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurationError {
    text: String,
    problem: DurationProblem,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DurationProblem {
    Empty,
    Negative,
    Unreadable,
    Calendar,
    Long,
}

impl DurationError {
    fn new(text: &str, problem: DurationProblem) -> Self {
        Self { text: text.to_owned(), problem }
    }

    /// Returns the full text of the rejected value.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 80;
        let shown: String = self.text.chars().take(SHOWN_MAX).collect();
        let more = if shown.len() < self.text.len() { "…" } else { "" };
        write!(f, "duration {shown:?}{more} ")?;
        match self.problem {
            DurationProblem::Empty => write!(f, "is empty; use a value such as {EXAMPLES}"),
            DurationProblem::Negative => write!(f, "is negative; use zero or more, such as {EXAMPLES}"),
            DurationProblem::Unreadable => write!(f, "is not valid; use a value such as {EXAMPLES}"),
            DurationProblem::Calendar => {
                f.write_str(r#"is in months or years, which vary in length; use days, such as "30 days""#)
            }
            DurationProblem::Long => write!(f, "is too long; the limit is {} ms, about 292 million years", i64::MAX),
        }
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(text: &str) -> u128 {
        let duration = parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(duration.subsec_nanos() % 1_000_000, 0, "{text:?} is not whole milliseconds");
        duration.as_millis()
    }

    fn refusal(input: impl IntoDuration) -> String {
        input.into_duration().expect_err("should be refused").to_string()
    }

    #[test]
    fn text_is_parsed_to_the_millisecond() {
        let table = [
            ("5s", 5_000),
            ("5 sec", 5_000),
            ("5 seconds", 5_000),
            ("30m", 1_800_000),
            ("1.5 hours", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1 hour, 30 minutes", 5_400_000),
            ("2 days", 172_800_000),
            ("1.5 days", 129_600_000),
            ("250 ms", 250),
            ("100 millis", 100),
            ("1 week", 604_800_000),
            ("1w 1d 1h 1m 1s 1ms", 694_861_001),
            ("0.1 s", 100),
            ("2000 µs", 2),
            ("  5s\n", 5_000),
            ("0s", 0),
        ];
        for (text, expected) in table {
            assert_eq!(millis(text), expected, "{text:?}");
        }
    }

    #[test]
    fn iso_8601_days_have_24_hours() {
        let table = [
            ("PT5M", 300_000),
            ("pt5m", 300_000),
            ("PT1.5S", 1_500),
            ("P1D", 86_400_000),
            ("P1W", 604_800_000),
            ("P1DT2H", 93_600_000),
            ("PT9223372036854775S", 9_223_372_036_854_775_000),
        ];
        for (text, expected) in table {
            assert_eq!(millis(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bare_number_is_milliseconds() {
        assert_eq!(millis("1500"), 1_500);
        assert_eq!(millis("0"), 0);
        let numbers = [
            1500_u32.into_duration(),
            1500_u64.into_duration(),
            1500_i32.into_duration(),
            1500_i64.into_duration(),
            1500_usize.into_duration(),
            1500.into_duration(),
        ];
        assert!(numbers.iter().all(|number| *number == Ok(Duration::from_millis(1500))));
    }

    #[test]
    fn owned_and_borrowed_text_parse_the_same() {
        let text = String::from("2 days");
        assert_eq!((&text).into_duration(), "2 days".into_duration());
        assert_eq!(text.into_duration(), "2 days".into_duration());
    }

    #[test]
    fn invalid_duration_is_refused_with_its_text() {
        let table = [
            "",
            "   ",
            "5 parsecs",
            "-1s",
            "-5",
            "-PT5M",
            "P-1D",
            "1s ago",
            "NaN",
            "inf",
            "infinity",
            "1e400 s",
            "1e3",
            "s",
            "5 5",
            "5s 5",
            "1. s",
            ".5s",
            "1.5",
            "1..5s",
            "1,5s",
            "5s,",
            ",5s",
            "5s,,5s",
            "5s;",
            "P",
            "PT",
            "P1",
            "0x10",
            "1_000",
            "٣s",
            "1M",
            "+5s",
            "1:30:00",
            "null",
            "1 month",
            "2 years",
            "P1Y",
            "P2M",
            "1mo 5s",
        ];
        for text in table {
            let error = parse(text).expect_err(text);
            assert_eq!(error.text(), text);
            assert!(error.to_string().starts_with(&format!("duration {text:?} ")), "{error}");
        }
    }

    #[test]
    fn each_error_suggests_a_fix() {
        assert_eq!(refusal(" "), r#"duration " " is empty; use a value such as "5s", "1h 30m", "2 days" or "PT5M""#);
        assert_eq!(
            refusal(-1),
            r#"duration "-1" is negative; use zero or more, such as "5s", "1h 30m", "2 days" or "PT5M""#
        );
        assert_eq!(
            refusal("1 month"),
            r#"duration "1 month" is in months or years, which vary in length; use days, such as "30 days""#
        );
        assert_eq!(
            refusal("99999999999999999999 weeks"),
            "duration \"99999999999999999999 weeks\" is too long; the limit is 9223372036854775807 ms, \
             about 292 million years"
        );
    }

    #[test]
    fn long_text_is_truncated_in_errors_but_kept_in_full() {
        let text = "x".repeat(10_000);
        let error = parse(&text).expect_err("no duration");
        assert_eq!(error.text(), text);
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn longest_duration_is_what_a_timestamp_can_hold() {
        assert_eq!(parse("9223372036854775807 ms"), Ok(LONGEST));
        assert_eq!(i64::MAX.into_duration(), Ok(LONGEST));
        assert_eq!(LONGEST.into_duration(), Ok(LONGEST));
        assert!(refusal("9223372036854775808 ms").contains("too long"));
        assert!(refusal("9223372036854775807 ms 1 ns").contains("too long"));
        assert!(refusal("9223372036854775808").contains("too long"));
        assert!(refusal("PT9223372036854776S").contains("too long"));
        assert!(refusal(u64::MAX).contains("18446744073709551615"));
        assert!(refusal(Duration::MAX).contains("too long"));
    }

    #[test]
    fn smallest_fraction_of_a_second_is_not_zero() {
        assert_eq!(parse("0.0000000000000000000001 s"), Ok(Duration::from_nanos(1)));
        assert!(parse(&format!("0.{}1 s", "0".repeat(60))).is_err());
    }

    #[test]
    fn duration_is_written_in_human_units() {
        let table = [
            (0, "0ns"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (60_000, "1m"),
            (90_000, "1m 30s"),
            (5_400_000, "1h 30m"),
            (259_200_000, "3d"),
            (255_600_001, "2d 23h 1ms"),
        ];
        for (millis, expected) in table {
            assert_eq!(text(Duration::from_millis(millis)), expected);
        }
    }

    proptest! {
        #[test]
        fn written_durations_parse_back(millis in 0..=i64::MAX.unsigned_abs(), nanos in 0..1_000_000_000_u32) {
            for duration in [Duration::from_millis(millis), Duration::new(millis % 1_000_000, nanos)] {
                prop_assert_eq!(parse(&text(duration)), Ok(duration));
            }
        }

        #[test]
        fn no_text_makes_parsing_panic(text in any::<String>()) {
            let _ = parse(&text);
        }

        #[test]
        fn no_text_that_looks_like_a_duration_makes_parsing_panic(text in "[0-9PTpt.,+ -]{0,30}[a-zµ]{0,8}[0-9DHMSW]{0,8}") {
            let _ = parse(&text);
        }

        #[test]
        fn parsed_durations_are_within_the_limit(number in any::<u64>(), unit in 0..UNITS.len()) {
            let label = UNITS[unit].1[0];
            let expected = u128::from(number) * u128::from(UNITS[unit].0);
            match parse(&format!("{number}{label}")) {
                Ok(duration) => prop_assert_eq!(duration.as_nanos(), expected),
                Err(_) => prop_assert!(expected > LONGEST.as_nanos()),
            }
        }
    }

    #[test]
    fn units_are_case_insensitive() {
        for (text, millis) in [("5 Seconds", 5_000), ("2 MIN", 120_000), ("1H 30m", 5_400_000), ("7 Ms", 7)] {
            assert_eq!(text.into_duration(), Ok(Duration::from_millis(millis)), "{text}");
        }
    }
}
