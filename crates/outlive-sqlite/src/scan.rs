//! Finding instances by a filter in short reads: a long one would keep the log from being used again.

use std::ops::ControlFlow;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::{JobKind, Kinds};
use outlive_core::payload::Payload;
use outlive_core::query::{Counts, Filter, Instance, Page};
use outlive_core::status::StatusKind;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::row::{self, Read};

/// How many rows one read looks at.
const ROWS_PER_READ: usize = 2_000;

/// A page ends once its payloads have this many bytes, however many instances were asked for.
const BYTES_PER_PAGE: usize = 8 << 20;

/// A filter as SQL: what an index narrows it to, and what is left to be looked at row by row.
struct Scan {
    sql: String,
    values: Vec<Value>,
}

/// The newest matches below `before`.
pub(crate) fn list(
    connection: &Connection,
    filter: &Filter,
    before: Option<InstanceNum>,
    limit: usize,
) -> rusqlite::Result<Page> {
    let mut nums = Vec::new();
    visit(connection, filter, before, limit.saturating_add(1), |num, _| {
        nums.push(num);
        if nums.len() > limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let found = nums.len();
    nums.truncate(limit);
    let (instances, read) = read(connection, &nums)?;
    let next = read.checked_sub(1).filter(|_| read < found).map(|last| InstanceNum(nums[last]));
    Ok(Page { instances, next })
}

/// How many match, by status.
pub(crate) fn count(connection: &Connection, filter: &Filter) -> rusqlite::Result<Counts> {
    let is_counted = filter.id_prefix.is_none()
        && filter.tags.is_empty()
        && filter.created_from.is_none()
        && filter.created_before.is_none();
    if is_counted {
        return counters(connection, filter);
    }
    let mut counts = Counts::default();
    visit(connection, filter, None, ROWS_PER_READ, |_, status| {
        *counts.0.entry(status).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    Ok(counts)
}

fn counters(connection: &Connection, filter: &Filter) -> rusqlite::Result<Counts> {
    let kinds = kinds(filter).unwrap_or_else(|| "1".to_owned());
    let sql = format!(
        "SELECT status, sum(n) FROM counter WHERE (?1 IS NULL OR workflow = ?1) AND {kinds} GROUP BY status HAVING sum(n) > 0"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([&filter.workflow])?;
    let mut counts = Counts::default();
    while let Some(row) = rows.next()? {
        if let Some(kind) = row::status_kind(row.get(0)?)
            && (filter.statuses.is_empty() || filter.statuses.contains(&kind))
        {
            counts.0.insert(kind, row.get::<_, i64>(1)?.cast_unsigned());
        }
    }
    Ok(counts)
}

/// The names of the jobs that have instances or dead letters.
pub(crate) fn jobs(connection: &Connection) -> rusqlite::Result<Vec<Name>> {
    let is_job = is_job();
    let sql = format!("SELECT workflow FROM counter WHERE n > 0 AND {is_job} UNION SELECT job FROM dead ORDER BY 1");
    let mut statement = connection.prepare_cached(&sql)?;
    let names = statement.query_map([], |row| Ok(Name::recorded(&row::text(row, 0))))?;
    names.collect()
}

/// Reads the rows of these instances until they are a page, and returns how many it looked at; one that has been purged
/// since is left out.
fn read(connection: &Connection, nums: &[u64]) -> rusqlite::Result<(Vec<Instance>, usize)> {
    let (mut instances, mut bytes, mut read) = (Vec::new(), 0, 0);
    for num in nums {
        let found = row::by_num(connection, *num)?.map(Read::annotated);
        bytes += found.as_ref().map_or(0, |found| found.input.len() + found.outcome.as_ref().map_or(0, Payload::len));
        instances.extend(found);
        read += 1;
        if bytes >= BYTES_PER_PAGE {
            break;
        }
    }
    Ok((instances, read))
}

/// Shows `see` each match below `before`, newest first, until it has seen enough. `wanted` is about how many that is.
fn visit(
    connection: &Connection,
    filter: &Filter,
    before: Option<InstanceNum>,
    wanted: usize,
    mut see: impl FnMut(u64, StatusKind) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let scan = Scan::of(filter);
    let mut statement = connection.prepare_cached(&scan.sql)?;
    // Most rows are hits, or few are: a read that gave too few is followed by a longer one.
    let mut rows_max = wanted.min(ROWS_PER_READ);
    let mut below = before.map_or(i64::MAX, |num| i64::try_from(num.0).unwrap_or(i64::MAX));
    loop {
        let mut values = scan.values.clone();
        values.extend([Value::Integer(below), Value::Integer(i64::try_from(rows_max).unwrap_or(i64::MAX))]);
        let mut rows = statement.query(params_from_iter(values))?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += 1;
            below = row.get(0)?;
            let status = row::int(row, 1).and_then(row::status_kind).unwrap_or(StatusKind::Stuck);
            if row::int(row, 2) == Some(1) && see(below.cast_unsigned(), status).is_break() {
                return Ok(());
            }
        }
        if seen < rows_max {
            return Ok(());
        }
        rows_max = rows_max.saturating_mul(2).min(ROWS_PER_READ);
    }
}

impl Scan {
    fn of(filter: &Filter) -> Self {
        let mut values = Vec::new();
        let narrow = narrow(filter, &mut values);
        let tests = tests(filter, &mut values);
        let tests = if tests.is_empty() { "1".to_owned() } else { tests.join(" AND ") };
        // The tests come first in the text but their values last, hence numbers.
        let (below, limit) = (values.len() + 1, values.len() + 2);
        let sql = format!(
            "SELECT num, status, {tests} FROM instance WHERE {narrow} num < ?{below} ORDER BY num DESC LIMIT ?{limit}"
        );
        Self { sql, values }
    }
}

/// The condition that an index answers in order of number: one status but the most common, else the workflow.
fn narrow(filter: &Filter, values: &mut Vec<Value>) -> &'static str {
    match (filter.statuses.as_slice(), &filter.workflow) {
        ([kind], _) if *kind != StatusKind::Completed => {
            values.push(Value::Integer(kind.code().into()));
            "status = ?1 AND status <> 4 AND"
        }
        (_, Some(workflow)) => {
            values.push(Value::Text(workflow.clone()));
            "workflow = ?1 AND"
        }
        _ => "",
    }
}

/// Whether a row is of a run or of a job, as the filter wants it; nothing if it may be of either.
fn kinds(filter: &Filter) -> Option<String> {
    match filter.kinds {
        Kinds::Runs => Some(format!("NOT {}", is_job())),
        Kinds::Jobs => Some(is_job()),
        Kinds::All => None,
    }
}

fn is_job() -> String {
    let begins = |kind: JobKind| {
        let prefix = format!("{kind}:");
        format!("substr(workflow, 1, {}) = '{prefix}'", prefix.len())
    };
    format!("({})", JobKind::ALL.map(begins).join(" OR "))
}

/// What is left of the filter, to be tested on each row.
fn tests(filter: &Filter, values: &mut Vec<Value>) -> Vec<String> {
    let is_by_status = matches!(filter.statuses.as_slice(), [kind] if *kind != StatusKind::Completed);
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    let mut tests: Vec<String> = kinds(filter).into_iter().collect();
    if !is_by_status && !filter.statuses.is_empty() {
        let codes: Vec<String> = filter.statuses.iter().map(|kind| kind.code().to_string()).collect();
        tests.push(format!("status IN ({})", codes.join(", ")));
    }
    if let Some(workflow) = filter.workflow.as_ref().filter(|_| is_by_status) {
        tests.push(format!("workflow = {}", bind(Value::Text(workflow.clone()))));
    }
    if let Some(prefix) = &filter.id_prefix {
        let chars = prefix.chars().count();
        tests.push(format!("substr(id, 1, {chars}) = {}", bind(Value::Text(prefix.clone()))));
    }
    if let Some(from) = filter.created_from {
        tests.push(format!("created_at >= {}", bind(Value::Integer(from.as_millis()))));
    }
    if let Some(before) = filter.created_before {
        tests.push(format!("created_at < {}", bind(Value::Integer(before.as_millis()))));
    }
    for (key, value) in &filter.tags {
        let (key, value) = (bind(Value::Text(key.clone())), bind(Value::Text(value.clone())));
        let found =
            format!("EXISTS (SELECT 1 FROM json_each(tags) AS tag WHERE tag.key = {key} AND tag.atom = {value})");
        // Tags that are not JSON any more are the trouble of their own row.
        tests.push(format!("CASE WHEN json_valid(tags) THEN {found} ELSE 0 END"));
    }
    tests
}
