//! Cron in time zones, at every clock change.

use std::collections::BTreeMap;
use std::process::Command;

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
use outlive_core::schedule::{Cron, Missed, Schedule};
use outlive_core::time::Timestamp as Moment;

/// Zones with different rules for daylight saving: shifts of half an hour or two hours, negative shifts in winter,
/// changes around Ramadan, at midnight or on Fridays, rules abolished or reintroduced, and none at all.
const ZONES: [&str; 25] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Juba",
    "America/Ciudad_Juarez",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/Moscow",
    "Europe/Paris",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Fiji",
];

/// A past or future clock change of a zone.
struct Change {
    name: &'static str,
    zone: TimeZone,
    at: Timestamp,
    /// The local time before and after the change, which differ.
    local: [jiff::civil::DateTime; 2],
}

fn changes(name: &'static str) -> Vec<Change> {
    let zone = TimeZoneDatabase::bundled().get(name).unwrap();
    let [from, to] = ["2020-01-01T00:00Z", "2041-01-01T00:00Z"].map(|text| text.parse::<Timestamp>().unwrap());
    let moments: Vec<_> = zone.following(from).map(|change| change.timestamp()).take_while(|at| *at < to).collect();
    let change = |at: Timestamp| {
        let before = zone.to_offset(at - 1.second());
        Change { name, zone: zone.clone(), at, local: [before.to_datetime(at), zone.to_datetime(at)] }
    };
    moments.into_iter().map(change).filter(|change| change.local[0] != change.local[1]).collect()
}

fn all_changes() -> impl Iterator<Item = Change> {
    ZONES.into_iter().flat_map(changes)
}

fn moment(at: Timestamp) -> Moment {
    Moment::from_millis(at.as_millisecond())
}

/// Returns all matches in an inclusive range, as found by `next_after`.
fn matches(cron: &Cron, [from, to]: [Timestamp; 2]) -> Vec<Timestamp> {
    let first = cron.next_after(moment(from - 1.second()));
    let all = std::iter::successors(first, |at| cron.next_after(*at)).take_while(|at| *at <= moment(to));
    all.map(|at| Timestamp::from_millisecond(at.as_millis()).unwrap()).collect()
}

fn cron(pattern: &str, zone: &str) -> Cron {
    Cron::new(pattern).unwrap().zone(zone).unwrap()
}

/// Returns the local times at which a change can go wrong: at both edges, next to them and in between.
fn critical_times(change: &Change) -> Vec<Time> {
    let [early, late] = [change.local.iter().min().unwrap(), change.local.iter().max().unwrap()];
    let middle = *early + late.duration_since(*early) / 2;
    let edges = [*early, *late, middle].into_iter();
    edges.flat_map(|at| [-60, 0, 60].map(|seconds| (at + SignedDuration::from_secs(seconds)).time())).collect()
}

/// Counts how often a daily job ran for each local date.
fn runs_by_date(change: &Change, time: Time, ticks: &[Timestamp]) -> BTreeMap<Date, usize> {
    let mut runs = BTreeMap::new();
    for tick in ticks {
        let local = change.zone.to_datetime(*tick);
        let date = if local.time() == time {
            let hour_before = SignedDuration::from_mins(5);
            let is_second = (1..=36).any(|k| change.zone.to_datetime(*tick - hour_before * k) == local);
            assert!(!is_second, "{} ran at {tick}, the second occurrence of a repeated time", change.name);
            local.date()
        } else {
            assert_eq!(*tick, change.at, "{} ran at {local} instead of {time}", change.name);
            let left_out = [change.local[0].date(), change.local[1].date()].into_iter().find(|date| {
                let is_gap =
                    |at| matches!(change.zone.to_ambiguous_timestamp(at).offset(), AmbiguousOffset::Gap { .. });
                is_gap(date.to_datetime(time))
            });
            left_out.unwrap_or_else(|| panic!("{} ran at {tick}, but {time} is not skipped", change.name))
        };
        *runs.entry(date).or_default() += 1;
    }
    runs
}

#[test]
fn daily_job_runs_once_per_date_at_every_change() {
    let mut cases = 0;
    for change in all_changes() {
        for time in critical_times(&change) {
            let daily = cron(&format!("{} {} {} * * *", time.second(), time.minute(), time.hour()), change.name);
            let window = [change.at - 72.hours(), change.at + 72.hours()];
            let runs = runs_by_date(&change, time, &matches(&daily, window));
            let dates = change.local[0].date().yesterday().unwrap().series(1.day()).take(3);
            for date in dates {
                assert_eq!(runs.get(&date), Some(&1), "{} {time} on {date}: {runs:?}", change.name);
            }
            assert!(runs.values().all(|count| *count == 1), "{} {time}: {runs:?}", change.name);
            cases += 1;
        }
    }
    assert!(cases > 3_000, "only {cases} cases: the zones have no changes");
}

#[test]
fn patterns_by_elapsed_time_match_the_wall_clock() {
    type Matches = fn(Time) -> bool;
    let table: [(&str, Matches); 5] = [
        ("0 * * * *", |time| time.minute() == 0),
        ("*/15 * * * *", |time| time.minute() % 15 == 0),
        ("10-50/20 */2 * * *", |time| [10, 30, 50].contains(&time.minute()) && time.hour() % 2 == 0),
        ("5 0-23 * * *", |time| time.minute() == 5),
        ("* */3 * * *", |time| time.hour() % 3 == 0),
    ];
    for change in all_changes() {
        let window = [change.at - 5.hours(), change.at + 5.hours()];
        let minutes: Vec<_> = (-300..=300).map(|minute: i64| change.at + minute.minutes()).collect();
        for (pattern, is_match) in table {
            let expected = minutes.iter().copied().filter(|at| is_match(change.zone.to_datetime(*at).time()));
            let found = matches(&cron(pattern, change.name), window);
            assert_eq!(found, expected.collect::<Vec<_>>(), "{pattern} {} {}", change.name, change.at);
        }
    }
}

#[test]
fn hourly_and_15_minute_ticks_stay_evenly_spaced_across_changes() {
    for (pattern, seconds) in [("0 * * * *", 3_600), ("*/15 * * * *", 900)] {
        let mut cases = 0;
        for change in all_changes() {
            let shift = change.local[1].duration_since(change.local[0]).as_secs();
            if shift % seconds != 0 {
                continue;
            }
            let ticks = matches(&cron(pattern, change.name), [change.at - 5.hours(), change.at + 5.hours()]);
            let apart = ticks.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs());
            assert!(apart.clone().all(|apart| apart == seconds), "{pattern} {} {:?}", change.name, ticks);
            assert!(apart.count() as i64 >= 10 * 3_600 / seconds - 1, "{pattern} {} {:?}", change.name, ticks);
            cases += 1;
        }
        assert!(cases > 300, "only {cases} changes by whole steps");
    }
}

#[test]
fn times_in_a_gap_run_once_and_repeated_times_run_the_first_time() {
    let table = [
        ("*/20 2 * * *", "2026-03-29", vec!["01:00:00"]),
        ("0,30 1-3 * * *", "2026-03-29", vec!["00:00:00", "00:30:00", "01:00:00", "01:30:00"]),
        ("*/20 2 * * *", "2026-10-25", vec!["00:00:00", "00:20:00", "00:40:00"]),
        ("0 1-3 * * *", "2026-10-25", vec!["23:00:00", "00:00:00", "02:00:00"]),
        ("0 */2 * * *", "2026-10-25", vec!["22:00:00", "00:00:00", "01:00:00", "03:00:00"]),
    ];
    for (pattern, date, expected) in table {
        let date: Date = date.parse().unwrap();
        let midnight = date.at(0, 0, 0, 0).in_tz("Europe/Paris").unwrap().timestamp();
        let ticks = matches(&cron(pattern, "Europe/Paris"), [midnight, midnight + 5.hours()]);
        let times: Vec<_> = ticks.iter().map(|at| TimeZone::UTC.to_datetime(*at).time().to_string()).collect();
        assert_eq!(times, expected, "{pattern} on {date}");
    }
}

#[test]
fn skipped_day_runs_at_its_end() {
    let ticks = |pattern| {
        let window = ["2011-12-29T00:00-10:00", "2011-12-31T23:59+14:00"].map(|at| at.parse::<Timestamp>().unwrap());
        matches(&cron(pattern, "Pacific/Apia"), window).iter().map(Timestamp::to_string).collect::<Vec<_>>()
    };
    assert_eq!(ticks("0 9 30 12 *"), ["2011-12-30T10:00:00Z"]);
    assert_eq!(ticks("0 9 * * *"), ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"]);
    assert_eq!(ticks("0 */12 * * *").len(), 4);
}

/// Regression: the change was searched backward, and jiff 0.2.39 then returns 07:00 for the last change in the table of
/// a zone.
#[test]
fn gap_at_the_end_of_the_zone_table_is_found() {
    let window = ["2007-03-11T00:00Z", "2007-03-11T23:00Z"].map(|at| at.parse::<Timestamp>().unwrap());
    let ticks = matches(&cron("0 3 * * *", "America/Indiana/Winamac"), window);
    assert_eq!(ticks, ["2007-03-11T08:00Z".parse::<Timestamp>().unwrap()]);
}

#[test]
fn next_and_latest_agree_around_every_change() {
    let patterns = ["30 2 * * *", "*/20 0-3,23 * * *", "* * * * *", "15 */2 * * *", "* * 0-2 * * *", "0 0 L * *"];
    for change in all_changes() {
        for cron in patterns.map(|pattern| cron(pattern, change.name)) {
            for seconds in (-9_000..=9_000).step_by(900).flat_map(|at| [at - 1, at]) {
                let at = moment(change.at + seconds.seconds());
                let (latest, next) = (cron.latest_until(at).unwrap(), cron.next_after(at).unwrap());
                assert!(latest <= at && at < next, "{cron}: {latest} {at} {next}");
                assert_eq!(cron.next_after(latest), Some(next), "{cron} from {at}");
                assert_eq!(cron.latest_until(next), Some(next), "{cron} from {at}");
                let just_before = Moment::from_millis(next.as_millis() - 1);
                assert_eq!(cron.latest_until(just_before), Some(latest), "{cron} from {at}");
            }
        }
    }
}

#[test]
fn rare_pattern_is_found_across_many_changes() {
    let leap_mondays = cron("0 * 29 2 +MON", "Europe/Paris");
    let from = moment("2026-01-01T00:00Z".parse().unwrap());
    let next = leap_mondays.next_after(from).unwrap();
    assert_eq!(next.to_string(), "2044-02-28T23:00:00Z");
    assert_eq!(leap_mondays.latest_until(from).unwrap().to_string(), "2016-02-29T22:00:00Z");
    let far = cron("0 0 * 1 1 * 4999", "Europe/Paris");
    assert_eq!(far.next_after(from).unwrap().to_string(), "4998-12-31T23:00:00Z");
}

#[test]
fn repeated_match_on_the_only_day_of_the_year_is_found_twice() {
    // Beirut repeats the last hour of the day, Havana the first.
    let table = [
        ("30 * 24 10 *", "Asia/Beirut", "2026-10-24", ["20:30", "21:30"]),
        ("30 * 1 11 *", "America/Havana", "2026-11-01", ["04:30", "05:30"]),
    ];
    for (pattern, zone, date, times) in table {
        let [first, second] = times.map(|time| moment(format!("{date}T{time}Z").parse().unwrap()));
        let cron = cron(pattern, zone);
        assert_eq!(cron.next_after(first), Some(second), "{cron}");
        assert_eq!(cron.latest_until(Moment::from_millis(second.as_millis() - 1)), Some(first), "{cron}");
    }
}

#[test]
fn repeated_hour_counts_twice_among_missed_ticks() {
    let schedule = Schedule::from(cron("* */23 * * *", "America/Havana"));
    let [tick, ended, expected] = ["02:59", "05:59", "03:30"].map(|time| format!("2026-11-01T{time}Z"));
    let [tick, ended, expected] = [tick, ended, expected].map(|at| moment(at.parse().unwrap()));
    // 60 ticks from 23:00 on, then 120 in the repeated hour; the latest 150 of them count.
    assert_eq!(schedule.next(tick, ended, Missed::All(150)), Some(expected));
}

#[test]
fn cron_without_a_zone_is_utc() {
    let next = Cron::new("30 2 * * *").unwrap().next_after(moment("2026-03-29T00:00Z".parse().unwrap())).unwrap();
    assert_eq!(next.to_string(), "2026-03-29T02:30:00Z");
}

#[test]
fn machine_time_zone_does_not_matter() {
    for zone in ["Asia/Tokyo", "America/New_York", ":/nowhere", "EST5EDT"] {
        let test = "zones::cron_without_a_zone_is_utc";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", test]).env("TZ", zone).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "TZ={zone}: {said}");
    }
}
