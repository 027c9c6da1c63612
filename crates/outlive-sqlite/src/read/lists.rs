//! Finds instances by a filter, in many short reads: a long read would keep the WAL from being reused and make the next
//! caller wait.
//!
//! An index narrows the search, and the rest of the filter is tested row by row. The most selective condition is used:
//! a rare id prefix, a parent, a tag, any status but the most common, or the workflow, in this order. Instances are listed by
//! number, and all of these indexes have them in that order except the one by id: the numbers of a prefix are gathered
//! first.

use std::ops::ControlFlow;
use std::time::Duration;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::{JobKind, Kinds};
use outlive_core::status::StatusKind;
use outlive_core::store::page::Room;
use outlive_core::store::query::{Counts, Filter, Instance, Page};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::row::{self, InstanceRow};
use crate::watch;

/// The number of rows one read examines.
const ROWS_PER_READ: usize = 2_000;

/// The number of rows examined for one page: if few match, the page ends early.
const ROWS_PER_PAGE: usize = 100_000;

/// The number of ids one read gathers.
const IDS_PER_READ: usize = 10_000;

/// The maximum number of ids gathered. A prefix that more ids have does not narrow the search by much.
const IDS_MAX: usize = 50_000;

/// The maximum duration of a read, however few rows it has examined: they may come from a slow disk.
const READ_MAX: Duration = Duration::from_millis(25);

const IDS: &str = "SELECT id, num FROM instance WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";

/// A page being filled.
pub(crate) struct Listing {
    search: Search,
    limit: usize,
    room: Room,
    instances: Vec<Instance>,
}

impl Listing {
    /// Starts a page of the newest matches below `before`.
    pub(crate) fn new(filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Self {
        let search = Search::new(filter, before, limit.saturating_add(1));
        Self { search, limit, room: Room::new(limit), instances: Vec::new() }
    }

    /// Makes one short read. Breaks with the page when it is complete.
    pub(crate) fn read(&mut self, connection: &Connection) -> rusqlite::Result<ControlFlow<Page>> {
        // One more than fits, to know whether there is a next page.
        let wanted = (self.limit - self.instances.len()).saturating_add(1);
        let mut nums = Vec::new();
        self.search.read(connection, |num, _| {
            nums.push(num);
            if nums.len() < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for num in nums {
            if self.room.is_full() {
                let next = self.instances.last().map(|last| last.num);
                return Ok(self.end(next));
            }
            // Skips an instance that has been purged since.
            if let Some(instance) = row::by_num(connection, num)?.map(InstanceRow::annotated) {
                self.room.take(&instance);
                self.instances.push(instance);
            }
        }
        let next = InstanceNum(self.search.below.cast_unsigned());
        match &self.search {
            search if search.is_over => Ok(self.end(None)),
            search if search.looked >= ROWS_PER_PAGE => Ok(self.end(Some(next))),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn end(&mut self, next: Option<InstanceNum>) -> ControlFlow<Page> {
        ControlFlow::Break(Page { instances: std::mem::take(&mut self.instances), next })
    }
}

/// A count in progress.
pub(crate) struct Counting {
    search: Search,
    counts: Counts,
}

impl Counting {
    pub(crate) fn new(filter: &Filter) -> Self {
        Self { search: Search::new(filter, None, ROWS_PER_READ), counts: Counts::default() }
    }

    /// Makes one short read. Breaks with the number of matches by status.
    pub(crate) fn read(&mut self, connection: &Connection) -> rusqlite::Result<ControlFlow<Counts>> {
        let Self { search, counts } = self;
        let filter = &search.filter;
        let is_counted = filter.id_prefix.is_none()
            && filter.tags.is_empty()
            && filter.created_from.is_none()
            && filter.created_before.is_none()
            && filter.version.is_none()
            && filter.parent.is_none();
        if is_counted {
            return counters(connection, filter).map(ControlFlow::Break);
        }
        search.read(connection, |_, status| {
            *counts.0.entry(status).or_default() += 1;
            ControlFlow::Continue(())
        })?;
        Ok(if search.is_over { ControlFlow::Break(std::mem::take(counts)) } else { ControlFlow::Continue(()) })
    }
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

/// Returns the names of the jobs that have instances or dead letters.
pub(crate) fn jobs(connection: &Connection) -> rusqlite::Result<Vec<Name>> {
    let is_job = is_job();
    let sql = format!("SELECT workflow FROM counter WHERE n > 0 AND {is_job} UNION SELECT job FROM dead ORDER BY 1");
    let mut statement = connection.prepare_cached(&sql)?;
    let names = statement.query_map([], |row| Ok(Name::recorded(&row::text(row, 0))))?;
    names.collect()
}

/// A search through the instances, newest first.
struct Search {
    filter: Filter,
    scan: Scan,
    /// The instances whose id has the wanted prefix, if that narrows the search.
    ids: Ids,
    /// The next instance examined has a smaller number.
    below: i64,
    /// The number of rows the next read examines.
    rows_next: usize,
    /// The number of rows examined so far.
    looked: usize,
    is_over: bool,
}

/// The instances with an id prefix.
enum Ids {
    /// No prefix to narrow the search: none is wanted, or too many ids have it.
    Any,
    /// Being gathered; those before `from` are done.
    Gathering { from: String, until: Value, nums: Vec<i64> },
    /// All gathered, the newest last.
    Gathered(Scan, Vec<i64>),
}

impl Search {
    /// Starts a search below `before`. `wanted` is the approximate number of matches wanted.
    fn new(filter: &Filter, before: Option<InstanceNum>, wanted: usize) -> Self {
        let prefix = filter.id_prefix.as_ref().filter(|prefix| !prefix.is_empty());
        Self {
            filter: filter.clone(),
            scan: Scan::of(filter, ScanKey::best(filter)),
            ids: prefix.map_or(Ids::Any, |prefix| Ids::Gathering {
                from: prefix.clone(),
                until: past_prefix(prefix),
                nums: Vec::new(),
            }),
            below: before.map_or(i64::MAX, |num| i64::try_from(num.0).unwrap_or(i64::MAX)),
            rows_next: wanted.min(ROWS_PER_READ),
            looked: 0,
            is_over: false,
        }
    }

    /// Makes one short read, and passes each match to `see` until it breaks.
    fn read(
        &mut self,
        connection: &Connection,
        see: impl FnMut(u64, StatusKind) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        match &self.ids {
            Ids::Gathering { .. } => self.gather(connection),
            Ids::Gathered(..) => self.look_up(connection, see),
            Ids::Any => self.look_through(connection, see),
        }
    }

    /// Reads the next ids that have the prefix.
    fn gather(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Ids::Gathering { from, until, nums } = &mut self.ids else { return Ok(()) };
        let mut statement = connection.prepare_cached(IDS)?;
        let mut rows = statement.query(params![*from, *until, i64::try_from(IDS_PER_READ).unwrap_or(i64::MAX)])?;
        let (mut gathered, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            gathered += 1;
            last = Some(row::text(row, 0).into_owned());
            nums.extend(row::int(row, 1).filter(|num| *num < self.below));
        }
        match last {
            _ if nums.len() > IDS_MAX => self.ids = Ids::Any,
            Some(last) if gathered == IDS_PER_READ => *from = last + "\0",
            _ => {
                let mut nums = std::mem::take(nums);
                nums.sort_unstable();
                self.ids = Ids::Gathered(Scan::of(&self.filter, ScanKey::Num), nums);
            }
        }
        Ok(())
    }

    /// Examines the next gathered instances.
    fn look_up(
        &mut self,
        connection: &Connection,
        mut see: impl FnMut(u64, StatusKind) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let Ids::Gathered(scan, nums) = &mut self.ids else { return Ok(()) };
        let mut statement = connection.prepare_cached(&scan.sql)?;
        let begun = watch::now();
        for _ in 0..ROWS_PER_READ {
            let Some(num) = nums.pop() else { break };
            (self.below, self.looked) = (num, self.looked + 1);
            let values = scan.values.iter().cloned().chain([Value::Integer(num), Value::Integer(1)]);
            let mut rows = statement.query(params_from_iter(values))?;
            if let Some(row) = rows.next()?
                && let Some((num, status)) = hit(row)
                && see(num, status).is_break()
            {
                return Ok(());
            }
            if begun.elapsed() > READ_MAX {
                break;
            }
        }
        self.is_over = nums.is_empty();
        Ok(())
    }

    /// Examines the next rows from the index.
    fn look_through(
        &mut self,
        connection: &Connection,
        mut see: impl FnMut(u64, StatusKind) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&self.scan.sql)?;
        let bounds = [self.below, i64::try_from(self.rows_next).unwrap_or(i64::MAX)].map(Value::Integer);
        let mut rows = statement.query(params_from_iter(self.scan.values.iter().cloned().chain(bounds)))?;
        let (begun, mut seen) = (watch::now(), 0);
        while let Some(row) = rows.next()? {
            seen += 1;
            (self.below, self.looked) = (row.get(0)?, self.looked + 1);
            if let Some((num, status)) = hit(row)
                && see(num, status).is_break()
            {
                return Ok(());
            }
            if begun.elapsed() > READ_MAX {
                return Ok(());
            }
        }
        self.is_over = seen < self.rows_next;
        // Either most rows match or few do: a read with too few matches is followed by a longer one.
        self.rows_next = self.rows_next.saturating_mul(2).min(ROWS_PER_READ);
        Ok(())
    }
}

/// Returns the instance of a row if it passes the tests.
fn hit(row: &rusqlite::Row<'_>) -> Option<(u64, StatusKind)> {
    let status = row::int(row, 1).and_then(row::status_kind).unwrap_or(StatusKind::Stuck);
    let num = row::int(row, 0).filter(|_| row::int(row, 2) == Some(1))?;
    Some((num.cast_unsigned(), status))
}

/// Returns the first value past all texts that begin with `prefix`. SQLite compares ids byte by byte, which orders them
/// by their characters, and orders any text before any blob.
fn past_prefix(prefix: &str) -> Value {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Skips the surrogates, which are not characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Value::Text(chars.into_iter().collect());
        }
    }
    Value::Blob(Vec::new())
}

/// A filter as SQL: selects the rows that an index narrows it to, with a column that is 1 if a row passes all tests.
struct Scan {
    sql: String,
    values: Vec<Value>,
}

/// The condition that narrows a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanKey {
    /// One number.
    Num,
    /// The first tag of the filter.
    Tag,
    Parent,
    Status,
    Workflow,
    /// Nothing.
    All,
}

impl ScanKey {
    fn best(filter: &Filter) -> Self {
        match filter.statuses.as_slice() {
            _ if filter.parent.is_some() => Self::Parent,
            _ if !filter.tags.is_empty() => Self::Tag,
            [kind] if *kind != StatusKind::Completed => Self::Status,
            _ if filter.workflow.is_some() => Self::Workflow,
            _ => Self::All,
        }
    }
}

impl Scan {
    fn of(filter: &Filter, by: ScanKey) -> Self {
        let mut values = Vec::new();
        let from = from(filter, by, &mut values);
        let tests = tests(filter, &mut values);
        let tests = if tests.is_empty() { "1".to_owned() } else { tests.join(" AND ") };
        // The tests come first in the SQL but their values last, so parameters are numbered.
        let (below, limit) = (values.len() + 1, values.len() + 2);
        let (num, is) = match by {
            ScanKey::Tag => ("tag.num", "<"),
            ScanKey::Num => ("instance.num", "="),
            _ => ("instance.num", "<"),
        };
        let sql =
            format!("SELECT {num}, status, {tests} FROM {from} {num} {is} ?{below} ORDER BY {num} DESC LIMIT ?{limit}");
        Self { sql, values }
    }
}

/// Returns the table, and the condition that one of its indexes satisfies in order of instance number.
fn from(filter: &Filter, by: ScanKey, values: &mut Vec<Value>) -> &'static str {
    match by {
        ScanKey::Num | ScanKey::All => "instance WHERE",
        ScanKey::Tag => {
            values.extend(filter.tags.iter().take(1).flat_map(|(key, value)| [key, value]).cloned().map(Value::Text));
            "tag LEFT JOIN instance USING (num) WHERE tag.key = ?1 AND tag.value = ?2 AND"
        }
        ScanKey::Parent => {
            values.extend(filter.parent.map(|num| Value::Integer(num.0.cast_signed())));
            "instance WHERE parent = ?1 AND parent IS NOT NULL AND"
        }
        ScanKey::Status => {
            values.extend(filter.statuses.first().map(|kind| Value::Integer(kind.code().into())));
            "instance WHERE status = ?1 AND status <> 4 AND"
        }
        ScanKey::Workflow => {
            values.extend(filter.workflow.clone().map(Value::Text));
            "instance WHERE workflow = ?1 AND"
        }
    }
}

/// Returns the condition that a row is a run or a job, as the filter wants, or `None` if it may be either.
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

/// Returns the filter as conditions on a row. The one that narrows the scan is included: it costs next to nothing.
fn tests(filter: &Filter, values: &mut Vec<Value>) -> Vec<String> {
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    let mut tests: Vec<String> = kinds(filter).into_iter().collect();
    if !filter.statuses.is_empty() {
        let codes: Vec<String> = filter.statuses.iter().map(|kind| kind.code().to_string()).collect();
        tests.push(format!("status IN ({})", codes.join(", ")));
    }
    if let Some(workflow) = &filter.workflow {
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
    if let Some(parent) = filter.parent {
        tests.push(format!("parent IS {}", bind(Value::Integer(parent.0.cast_signed()))));
    }
    if let Some(version) = &filter.version {
        tests.push(format!("version IS {}", bind(Value::Text(version.clone()))));
    }
    for (key, value) in &filter.tags {
        let (key, value) = (bind(Value::Text(key.clone())), bind(Value::Text(value.clone())));
        let found =
            format!("EXISTS (SELECT 1 FROM json_each(tags) AS label WHERE label.key = {key} AND label.atom = {value})");
        // Damaged tags must not fail the query for other rows.
        tests.push(format!("CASE WHEN json_valid(tags) THEN {found} ELSE 0 END"));
    }
    tests
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::Path;

    use outlive_core::time::Timestamp;

    use super::*;
    use crate::schema;

    /// Returns a store with `count` completed instances. Those with the ids in `rare` are the oldest and have a tag.
    fn store(count: usize, rare: &[&str]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::prepare(&connection, Path::new("memory")).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        let common = (rare.len()..count).map(|n| (format!("common-{n}"), None));
        let rare = rare.iter().map(|id| ((*id).to_owned(), Some(r#"{"shop":"paris"}"#)));
        for (num, (id, tags)) in (1..).zip(rare.chain(common)) {
            let sql = "INSERT INTO instance (num, status, owner, recoveries, blamed, created_at, seed, token, sum, reported, \
                 id, workflow, tags, input) VALUES (?1, 4, 0, 0, 0, ?1, 0, 0, 0, 0, ?2, 'checkout', ?3, 'null')";
            connection.prepare_cached(sql).unwrap().execute(params![num, id, tags]).unwrap();
            if tags.is_some() {
                connection.execute("INSERT INTO tag (key, value, num) VALUES ('shop', 'paris', ?1)", [num]).unwrap();
            }
        }
        connection.execute_batch("COMMIT").unwrap();
        connection
    }

    struct Found {
        ids: Vec<String>,
        next: Option<InstanceNum>,
        rows_looked_at: usize,
    }

    fn list(connection: &Connection, filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Found {
        let mut listing = Listing::new(filter, before, limit);
        loop {
            let looked = listing.search.looked;
            if let ControlFlow::Break(page) = listing.read(connection).unwrap() {
                let ids = page.instances.iter().map(|instance| instance.id.to_string()).collect();
                return Found { ids, next: page.next, rows_looked_at: listing.search.looked };
            }
            assert!(listing.search.looked - looked <= ROWS_PER_READ, "a read examined too many rows");
        }
    }

    /// What broke: a prefix was tested on every row, which took seconds in a store with a million instances.
    #[test]
    fn rare_prefix_or_tag_is_found_without_reading_other_rows() {
        let connection = store(5_000, &["rare-1", "rare-2", "rare-3"]);
        for filter in [Filter::runs().id_prefix("rare-"), Filter::runs().tag("shop", "paris")] {
            let found = list(&connection, &filter, None, 10);
            assert_eq!(
                (found.ids.as_slice(), found.next),
                (&["rare-3", "rare-2", "rare-1"].map(str::to_owned)[..], None)
            );
            assert_eq!(found.rows_looked_at, 3, "{filter:?}");
            let mut counting = Counting::new(&filter);
            let counts = loop {
                if let ControlFlow::Break(counts) = counting.read(&connection).unwrap() {
                    break counts;
                }
            };
            assert_eq!((counts.total(), counting.search.looked), (3, 3));
        }
    }

    #[test]
    fn prefix_pages_continue_where_the_last_one_ended() {
        let connection = store(300, &["rare-1", "rare-2", "rare-3", "rare-4"]);
        let filter = Filter::runs().id_prefix("rare-");
        let first = list(&connection, &filter, None, 3);
        assert_eq!((first.ids.len(), first.next), (3, Some(InstanceNum(2))));
        let second = list(&connection, &filter, first.next, 3);
        assert_eq!((second.ids, second.next), (vec!["rare-1".to_owned()], None));
    }

    #[test]
    fn id_and_tag_indexes_are_used_as_ordered_ranges() {
        let connection = store(3, &["rare"]);
        let filter = Filter::runs().id_prefix("rare").tag("shop", "paris").workflow("checkout");
        let by_tag = Scan::of(&filter, ScanKey::best(&filter)).sql;
        for (sql, says) in [
            (IDS.to_owned(), "COVERING INDEX sqlite_autoindex_instance_1 (id>? AND id<?)"),
            (by_tag, "SEARCH tag USING PRIMARY KEY (key=? AND value=? AND num<?)"),
            (Scan::of(&filter, ScanKey::Num).sql, "SEARCH instance USING INTEGER PRIMARY KEY (rowid=?)"),
        ] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let unbound = vec![Value::Null; statement.parameter_count()];
            let plan = statement.query_map(params_from_iter(unbound), |row| row.get::<_, String>(3)).unwrap();
            let plan = plan.map(Result::unwrap).collect::<Vec<_>>().join("; ");
            assert!(plan.contains(says) && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }

    /// What broke: a filter with few matches, all of them old, examined every row before anything was returned.
    #[test]
    fn page_with_few_matches_ends_early_and_the_next_continues() {
        let connection = store(ROWS_PER_PAGE + 5_000, &[]);
        let oldest = Filter::runs().created_before(Timestamp::from_millis(3));
        let first = list(&connection, &oldest, None, 10);
        assert!(first.ids.is_empty() && first.next.is_some(), "an empty page says that more may follow");
        assert!(first.rows_looked_at < ROWS_PER_PAGE + ROWS_PER_READ);
        let second = list(&connection, &oldest, first.next, 10);
        assert_eq!((second.ids.len(), second.next), (2, None));
    }

    #[test]
    fn very_common_prefix_does_not_narrow_the_search() {
        let connection = store(IDS_MAX + IDS_PER_READ, &["rare"]);
        let found = list(&connection, &Filter::runs().id_prefix("common-"), None, 10);
        assert_eq!((found.ids.len(), found.rows_looked_at), (10, 11));
    }

    #[test]
    fn past_prefix_is_after_every_text_with_the_prefix() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(past_prefix("ab"), text("ac"));
        assert_eq!(past_prefix("a\u{d7ff}"), text("a\u{e000}"));
        assert_eq!(past_prefix("a\u{10ffff}"), text("b"));
        assert_eq!(past_prefix("\u{10ffff}\u{10ffff}"), Value::Blob(Vec::new()));
    }
}
