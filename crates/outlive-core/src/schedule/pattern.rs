//! Parses cron patterns: validates each field under its own name, then passes the pattern to croner.

use std::sync::Arc;

use croner::parser::CronParser;
use jiff::civil::DateTime;

/// A parsed pattern, in local time.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    calendar: Arc<croner::Cron>,
    /// `true` if the pattern has no specific hours (`*`, a step of it, or all 24). It then follows elapsed time, so no
    /// run is skipped or repeated when clocks change.
    pub(super) is_hourly: bool,
}

impl Pattern {
    /// Parses the text. The error names the invalid field.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let words = words(&upper)?;
        let hours = words[2];
        let plain = FIELDS.iter().zip(words).map(|(field, word)| field.read(word)).collect::<Result<Vec<_>, _>>()?;
        let calendar =
            CronParser::new().parse(&plain.join(" ")).map_err(|error| format!("invalid pattern ({error})"))?;
        let is_hourly = hours.starts_with('*') || calendar.pattern.hours.values().len() == 24;
        Ok(Self { calendar: Arc::new(calendar), is_hourly })
    }

    /// Returns the first match at or after `from`, which must be a whole second.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        self.calendar.find_next_occurrence(&from, true).ok()
    }

    /// Returns the last match at or before `until`, which must be a whole second.
    pub(super) fn latest(&self, until: DateTime) -> Option<DateTime> {
        self.calendar.find_previous_occurrence(&until, true).ok()
    }

    /// Returns how many times of day match, on a day that matches.
    pub(super) fn times_per_day(&self) -> u64 {
        let pattern = &self.calendar.pattern;
        let counts = [&pattern.seconds, &pattern.minutes, &pattern.hours].map(|field| field.values().len() as u64);
        counts.iter().product()
    }
}

/// Short names for common patterns.
const NICKNAMES: [(&str, &str); 7] = [
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@HOURLY", "0 * * * *"),
];

/// Splits the text into seven fields. The default for seconds is 0 and for years is all.
fn words(text: &str) -> Result<Vec<&str>, String> {
    let text = match NICKNAMES.iter().find(|(name, _)| *name == text) {
        Some((_, pattern)) => pattern,
        None if text.starts_with('@') => {
            let names = NICKNAMES.map(|(name, _)| name.to_ascii_lowercase()).join(", ");
            return Err(format!("the nickname must be one of {names}"));
        }
        None => text,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.len() {
        5 => Ok([&["0"], words.as_slice(), &["*"]].concat()),
        6 => Ok([words.as_slice(), &["*"]].concat()),
        7 => Ok(words),
        1 => Err("1 field instead of 5, 6 (with seconds) or 7 (with years)".to_owned()),
        count => Err(format!("{count} fields instead of 5, 6 (with seconds) or 7 (with years)")),
    }
}

struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    kind: FieldKind,
}

#[derive(Clone, Copy, PartialEq)]
enum FieldKind {
    Plain,
    Month,
    Day,
    Weekday,
}

const FIELDS: [Field; 7] = [
    Field { name: "second", min: 0, max: 59, kind: FieldKind::Plain },
    Field { name: "minute", min: 0, max: 59, kind: FieldKind::Plain },
    Field { name: "hour", min: 0, max: 23, kind: FieldKind::Plain },
    Field { name: "day of month", min: 1, max: 31, kind: FieldKind::Day },
    Field { name: "month", min: 1, max: 12, kind: FieldKind::Month },
    Field { name: "day of week", min: 0, max: 7, kind: FieldKind::Weekday },
    Field { name: "year", min: 1970, max: 5000, kind: FieldKind::Plain },
];

impl Field {
    /// Replaces names with numbers and normalizes the field to the one spelling that croner parses without surprises:
    /// it would read `1JAN` as November and `MON` as minute 1.
    fn read(&self, word: &str) -> Result<String, String> {
        let is_day = matches!(self.kind, FieldKind::Day | FieldKind::Weekday);
        if word == "*" || word == "?" && is_day {
            return Ok("*".to_owned());
        }
        let both = if self.kind == FieldKind::Weekday && word.starts_with('+') { "+" } else { "" };
        let items = word[both.len()..].split(',').map(|item| self.item(item)).collect::<Result<Vec<_>, _>>()?;
        if items.iter().any(|item| item == "L") && items.iter().any(|item| item == "LW") {
            return Err(format!("{} {word:?} has both L and LW, of which only one would apply", self.name));
        }
        Ok(format!("{both}{}", items.join(",")))
    }

    fn item(&self, item: &str) -> Result<String, String> {
        let Some((range, step)) = item.split_once('/') else {
            return match item.split_once('-') {
                Some((first, last)) => self.range(first, last),
                None => self.single(item),
            };
        };
        let Some(step) = number(step).filter(|step| (1..=self.max).contains(step)) else {
            return Err(format!("{} step {step:?} is not within 1-{}", self.name, self.max));
        };
        let range = match range.split_once('-') {
            Some((first, last)) => self.range(first, last)?,
            None if range == "*" => format!("{}-{}", self.min, self.max),
            None => {
                return Err(format!("{} {item:?} has a step without a range such as * or 10-20 before it", self.name));
            }
        };
        Ok(format!("{range}/{step}"))
    }

    fn range(&self, first: &str, last: &str) -> Result<String, String> {
        let (from, mut to) = (self.value(first)?, self.value(last)?);
        if self.kind == FieldKind::Weekday && to == 0 && from > 0 {
            to = 7;
        }
        if from > to {
            return Err(format!("{} {first}-{last} ends before it begins", self.name));
        }
        Ok(format!("{from}-{to}"))
    }

    fn single(&self, text: &str) -> Result<String, String> {
        match self.kind {
            FieldKind::Day if matches!(text, "L" | "LW") => return Ok(text.to_owned()),
            FieldKind::Day => {
                if let Some(day) = text.strip_suffix('W') {
                    return Ok(format!("{}W", self.value(day)?));
                }
            }
            FieldKind::Weekday => {
                if let Some(day) = text.strip_suffix('L') {
                    return Ok(format!("{}L", self.value(day)? % 7));
                }
                if let Some((day, nth)) = text.split_once('#') {
                    let nth = number(nth).filter(|nth| (1..=5).contains(nth));
                    let nth = nth.ok_or_else(|| format!("{} {text:?} does not end in #1 to #5", self.name))?;
                    return Ok(format!("{}#{nth}", self.value(day)?));
                }
            }
            FieldKind::Plain | FieldKind::Month => {}
        }
        Ok(self.value(text)?.to_string())
    }

    fn value(&self, text: &str) -> Result<u16, String> {
        if let Some(value) = (self.min..).zip(self.names()).find_map(|(value, name)| (*name == text).then_some(value)) {
            return Ok(value);
        }
        if text.is_empty() || text.contains(|c: char| !c.is_ascii_digit()) {
            let or_name = self.names().get(1).map(|name| format!(" or a name such as {name}")).unwrap_or_default();
            return Err(format!("{} {text:?} is not a number{or_name}", self.name));
        }
        let value = number(text).filter(|value| (self.min..=self.max).contains(value));
        value.ok_or_else(|| format!("{} {text} is not within {}-{}", self.name, self.min, self.max))
    }

    fn names(&self) -> &'static [&'static str] {
        match self.kind {
            FieldKind::Month => &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
            FieldKind::Weekday => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
            FieldKind::Plain | FieldKind::Day => &[],
        }
    }
}

/// Parses digits only; `str::parse` would accept a sign.
fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
