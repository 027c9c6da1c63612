//! Cron patterns: which ones are accepted and rejected, for arbitrary text.

use std::time::Duration;

use outlive_core::schedule::{Cron, Missed, Schedule, ScheduleError};
use outlive_core::time::Timestamp;
use proptest::prelude::*;

/// 2026-01-01, a Thursday.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

fn next_dates(pattern: &str, count: usize) -> Vec<String> {
    let cron = Cron::new(pattern).unwrap();
    let all = std::iter::successors(cron.next_after(START), |at| cron.next_after(*at));
    all.take(count).map(|at| at.to_string().trim_end_matches(":00Z").replace('T', " ")).collect()
}

#[test]
fn patterns_match_the_expected_dates() {
    let table: [(&str, &[&str]); 17] = [
        ("0 9 * * MON", &["2026-01-05 09:00", "2026-01-12 09:00"]),
        ("0 9 * * mon-fri", &["2026-01-01 09:00", "2026-01-02 09:00", "2026-01-05 09:00"]),
        ("0 9 * * FRI-SUN", &["2026-01-02 09:00", "2026-01-03 09:00", "2026-01-04 09:00", "2026-01-09 09:00"]),
        ("0 0 * * 7", &["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 13 * FRI", &["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"]),
        ("0 0 13 * +FRI", &["2026-02-13 00:00", "2026-03-13 00:00", "2026-11-13 00:00"]),
        ("0 0 L * ?", &["2026-01-31 00:00", "2026-02-28 00:00"]),
        ("0 0 LW * *", &["2026-01-30 00:00", "2026-02-27 00:00"]),
        ("0 0 15W FEB,AUG *", &["2026-02-16 00:00", "2026-08-14 00:00"]),
        ("0 0 * * FRI#2", &["2026-01-09 00:00", "2026-02-13 00:00"]),
        ("0 0 * * SUNL", &["2026-01-25 00:00", "2026-02-22 00:00"]),
        ("0 0 * * 7L", &["2026-01-25 00:00", "2026-02-22 00:00"]),
        ("*/20 * * * * *", &["2026-01-01 00:00:20Z", "2026-01-01 00:00:40Z", "2026-01-01 00:01"]),
        ("0 0 0 1 1 * 2030,2032", &["2030-01-01 00:00", "2032-01-01 00:00"]),
        ("0 0 0 1 1 * */4", &["2030-01-01 00:00", "2034-01-01 00:00"]),
        ("@weekly", &["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("@Midnight", &["2026-01-02 00:00", "2026-01-03 00:00"]),
    ];
    for (pattern, expected) in table {
        assert_eq!(next_dates(pattern, expected.len()), expected, "{pattern}");
    }
}

#[test]
fn pattern_errors_name_the_field() {
    let table = [
        ("61 * * * *", "minute 61 is not within 0-59"),
        ("* 24 * * *", "hour 24 is not within 0-23"),
        ("* * 0 * *", "day of month 0 is not within 1-31"),
        ("* * * 13 *", "month 13 is not within 1-12"),
        ("* * * * 8", "day of week 8 is not within 0-7"),
        ("* * * * * * 1969", "year 1969 is not within 1970-5000"),
        ("99 * * * * *", "second 99 is not within 0-59"),
        ("99999999999 * * * *", "minute 99999999999 is not within 0-59"),
        ("MON * * * *", "minute \"MON\" is not a number"),
        ("* * * 1JAN *", "month \"1JAN\" is not a number or a name such as FEB"),
        ("* * * * MOON", "day of week \"MOON\" is not a number or a name such as MON"),
        ("? * * * *", "minute \"?\" is not a number"),
        ("*/0 * * * *", "minute step \"0\" is not within 1-59"),
        ("*/90 * * * *", "minute step \"90\" is not within 1-59"),
        ("5/15 * * * *", "minute \"5/15\" has a step without a range such as * or 10-20 before it"),
        ("50-10 * * * *", "minute 50-10 ends before it begins"),
        ("1,,2 * * * *", "minute \"\" is not a number"),
        ("+1 * * * *", "minute \"+1\" is not a number"),
        ("*,5 * * * *", "minute \"*\" is not a number"),
        ("* * L,LW * *", "day of month \"L,LW\" has both L and LW, of which only one would apply"),
        ("* * * * L", "day of week \"\" is not a number or a name such as MON"),
        ("* * * * MON#6", "day of week \"MON#6\" does not end in #1 to #5"),
        ("* * * *", "4 fields instead of 5, 6 (with seconds) or 7 (with years)"),
        ("", "0 fields instead of 5, 6 (with seconds) or 7 (with years)"),
    ];
    for (pattern, problem) in table {
        let error = Cron::new(pattern).unwrap_err();
        let way_out = "use minute, hour, day of month, month and day of week, such as \"0 9 * * MON\"";
        assert_eq!(error.to_string(), format!("cron {pattern:?}: {problem}; {way_out}"));
        assert_eq!(error, ScheduleError::Pattern { text: pattern.to_owned(), problem: problem.to_owned() });
    }
    let nickname = Cron::new("@often").unwrap_err().to_string();
    assert!(nickname.contains("the nickname must be one of @yearly, "), "{nickname}");
}

#[test]
fn long_text_is_truncated_in_errors() {
    let error = Cron::new(&"9".repeat(100_000)).unwrap_err().to_string();
    assert!(error.len() < 300, "{} bytes", error.len());
}

#[test]
fn patterns_that_never_match_are_refused() {
    for pattern in ["0 0 30 2 *", "0 0 31 FEB,APR,JUN,SEP,NOV *", "0 0 0 29 2 * 2027", "0 0 31W 2 *"] {
        let error = Cron::new(pattern).unwrap_err();
        assert_eq!(error, ScheduleError::Never { text: pattern.to_owned() });
        let said = error.to_string();
        let problem = "no date from 1970 to 5000 matches; use a day that exists in the month";
        assert_eq!(said, format!("cron {pattern:?}: {problem}"));
    }
    assert!(Cron::new("0 0 29 2 +MON").is_ok(), "rare is not never");
}

#[test]
fn unknown_zones_are_named() {
    for name in ["Europe/Pariss", "", "Etc/Unknown", "../etc/localtime", "UTC+1"] {
        let error = Cron::new("@daily").unwrap().zone(name).unwrap_err();
        assert!(error.to_string().starts_with(&format!("time zone {name:?} is unknown; ")), "{error}");
    }
    let tokyo = Cron::new(" 0 9 * * MON ").unwrap().zone("asia/TOKYO").unwrap();
    assert_eq!(tokyo.to_string(), "0 9 * * MON Asia/Tokyo");
}

/// An unbounded search would effectively never return.
#[test]
fn search_terminates_for_the_hardest_patterns() {
    for pattern in ["0 0 30 2 *", "59 59 23 31 12 +MON#5 4999", "0 0 0 29 2 +MON 1970-5000/4", "0 0 31W 2 *"] {
        let Ok(cron) = Cron::new(pattern) else { continue };
        let cron = cron.zone("Africa/Casablanca").unwrap();
        for at in [Timestamp::MIN, START, Timestamp::MAX] {
            let (_, _) = (cron.next_after(at), cron.latest_until(at));
        }
    }
    let minutely = Schedule::from(Cron::new("* * * * *").unwrap().zone("Europe/Paris").unwrap());
    let year_later = START.after(Duration::from_secs(365 * 86_400));
    for missed in [Missed::CatchUpOne, Missed::Skip, Missed::All(u32::MAX), Missed::All(1_000)] {
        assert!(minutely.next(START, year_later, missed).is_some());
    }
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    let millis = prop_oneof![
        any::<i64>(),
        -400_000_000_000_000..400_000_000_000_000_i64,
        1_500_000_000_000..2_500_000_000_000_i64,
        Just(i64::MIN),
        Just(i64::MAX),
    ];
    millis.prop_map(Timestamp::from_millis)
}

/// A valid field for values of this range.
fn any_field(min: u32, max: u32) -> impl Strategy<Value = String> {
    let list = move || proptest::collection::vec((min..=max).prop_map(|value| value.to_string()), 1..4);
    prop_oneof![
        6 => Just("*".to_owned()),
        3 => list().prop_map(|values| values.join(",")),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        2 => (min..=max, min..=max, 1..=max).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
        2 => (1..=max).prop_map(|step| format!("*/{step}")),
    ]
}

/// A pattern of five, six or seven fields.
fn any_pattern() -> impl Strategy<Value = String> {
    let clock = (any_field(0, 59), any_field(0, 59), any_field(0, 23));
    let day = prop_oneof![4 => any_field(1, 31), 1 => "(L|LW|1W|15W|31W|\\?)"];
    let month = prop_oneof![4 => any_field(1, 12), 1 => "(FEB|jan-Mar|DEC,2)"];
    let weekday = prop_oneof![4 => any_field(0, 7), 1 => "(MON-FRI|FRI-SUN|sun|[0-7]L|TUE#[1-5]|\\+MON|\\?)"];
    let fields = (clock, day, month, weekday, any_field(1970, 5000), 5..=7_usize);
    fields.prop_map(|((second, minute, hour), day, month, weekday, year, count)| {
        let all = [second, minute, hour, day, month, weekday, year];
        if count == 5 { all[1..6].join(" ") } else { all[..count].join(" ") }
    })
}

/// Arbitrary text, text from the characters of patterns, and patterns with characters inserted.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9*/,#LW?+a-zA-Z@ -]{0,40}",
        (any_pattern(), 0..30_usize, "[0-9*/,#LW?+a-zA-Z@ \u{17f}-]{1,3}").prop_map(|(mut text, at, more)| {
            text.insert_str(at.min(text.len()), &more);
            text
        }),
    ]
}

/// Checks that the matches around a time go forward and that both search directions agree.
fn check(cron: Cron, at: Timestamp, end: Timestamp) -> Result<(), TestCaseError> {
    let mut last = at;
    for _ in 0..5 {
        let Some(next) = cron.next_after(last) else { break };
        prop_assert!(next > last, "{cron}: {next} after {last}");
        prop_assert_eq!(cron.latest_until(next), Some(next), "{}", cron);
        let before = cron.latest_until(Timestamp::from_millis(next.as_millis() - 1));
        prop_assert!(before.is_none_or(|before| before <= last), "{cron}: {before:?} was skipped before {next}");
        last = next;
    }
    prop_assert!(cron.latest_until(at).is_none_or(|latest| latest <= at));
    let schedule = Schedule::from(cron);
    for missed in [Missed::CatchUpOne, Missed::Skip, Missed::All(0), Missed::All(3)] {
        prop_assert!(schedule.next(at, end, missed).is_none_or(|next| next > at));
    }
    let decades_later = at.after(Duration::from_secs(50 * 365 * 86_400));
    prop_assert_eq!(schedule.next(at, decades_later, Missed::All(u32::MAX)), schedule.next(at, at, Missed::Skip));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn valid_patterns_parse_and_go_forward(
        text in any_pattern(), zone in 0..3_usize, at in any_time(), end in any_time(),
    ) {
        match Cron::new(&text) {
            Ok(cron) => check(cron.zone(["UTC", "Europe/Paris", "Australia/Lord_Howe"][zone]).unwrap(), at, end)?,
            Err(error) => prop_assert_eq!(error, ScheduleError::Never { text }),
        }
    }

    #[test]
    fn arbitrary_text_is_refused_or_goes_forward(text in any_text(), zone in any::<String>(), at in any_time()) {
        let Ok(cron) = Cron::new(&text) else { return Ok(()) };
        prop_assert!(cron.clone().zone(&zone).is_err());
        check(cron, at, at)?;
    }

    #[test]
    fn interval_and_cron_agree_on_every_minute(
        minute in 0..30_000_000_i64, late in 0..20_000_000_i64, runs in 0..200_u32,
    ) {
        let tick = Timestamp::from_millis(minute * 60_000);
        let ended = tick.after(Duration::from_millis(late.unsigned_abs()));
        let every = Schedule::every("1 minute").unwrap();
        let cron = Schedule::from(Cron::new("* * * * *").unwrap());
        for missed in [Missed::CatchUpOne, Missed::Skip, Missed::All(runs)] {
            prop_assert_eq!(every.next(tick, ended, missed), cron.next(tick, ended, missed), "{:?}", missed);
        }
    }
}
