//! Reads runs one after the other, from a store or from an export, and never writes.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;
use outlive_core::id::InstanceNum;
use outlive_core::kind::Kinds;
use outlive_core::status::Status;
use outlive_core::store::page::{PAGE_BYTES, Weight, whole_inbox, whole_journal, whole_outputs};
use outlive_core::store::query::{Filter, Instance, Query};
use outlive_core::store::{Error as StoreError, ErrorKind, Store};

use super::{Exported, Reader};
use crate::error::{Error, ExportError, ExportProblem};
use crate::runtime::awaited;
use crate::runtime::open;

/// How many instances are listed at once.
const PAGE: usize = 500;
/// How many instances are read at once, so that they are not awaited one by one. Fewer if they are large.
const AT_ONCE: usize = 32;

/// Where to read runs from: the path of a store or of an export, or an open store. It is never written.
///
/// ```
/// use outlive::export::Source;
/// # use std::sync::Arc;
/// let file = Source::from("shop.db");
/// let open: Arc<dyn outlive::store::Store> = Arc::new(outlive::MemoryStore::new());
/// let store = Source::from(open);
/// # drop((file, store));
/// ```
pub struct Source(SourceKind);

enum SourceKind {
    Path(PathBuf),
    Store(Arc<dyn Store>),
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Self {
        Self(SourceKind::Path(path.to_owned()))
    }
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Self {
        Self(SourceKind::Path(path))
    }
}

impl From<&PathBuf> for Source {
    fn from(path: &PathBuf) -> Self {
        Self(SourceKind::Path(path.clone()))
    }
}

impl From<&str> for Source {
    fn from(path: &str) -> Self {
        Self(SourceKind::Path(path.into()))
    }
}

impl From<Arc<dyn Store>> for Source {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(SourceKind::Store(store))
    }
}

impl From<&Arc<dyn Store>> for Source {
    fn from(store: &Arc<dyn Store>) -> Self {
        Self(SourceKind::Store(store.clone()))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name())
    }
}

impl Source {
    /// Returns the name of the source, as written to an export.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            SourceKind::Path(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string(),
            SourceKind::Store(store) => store.durability(),
        }
    }
}

/// The runs of a source that match a filter.
pub(crate) struct Feed {
    from: Origin,
    filter: Filter,
    total: u64,
}

enum Origin {
    Store(Pages),
    Export(Box<Reader<BufReader<File>>>),
}

/// A store, page by page.
struct Pages {
    store: Arc<dyn Query>,
    /// Instances that are listed and not read yet.
    page: VecDeque<Instance>,
    before: Option<InstanceNum>,
    is_last: bool,
    /// How many to read next.
    at_once: usize,
    /// Whether to read what runs have given out, which no replay needs.
    has_outputs: bool,
}

impl Pages {
    async fn next(&mut self, filter: &Filter) -> Result<Vec<Exported>, Error> {
        // A page can be empty without being the last: what was on it may have been purged.
        while self.page.is_empty() && !self.is_last {
            let next = self.store.list(filter, self.before, PAGE).await?;
            self.is_last = next.next.is_none();
            self.before = next.next;
            self.page.extend(next.instances);
        }
        let some = self.page.drain(..self.page.len().min(self.at_once));
        let read = join_all(some.map(|instance| contents(&*self.store, instance, self.has_outputs))).await;
        let read = read.into_iter().collect::<Result<Vec<Exported>, Error>>()?;
        self.at_once = at_once(&read, self.at_once);
        Ok(read)
    }
}

impl Feed {
    /// Opens a source. Only runs are read: a job has no journal, and nothing to replay.
    pub(crate) async fn open(source: Source, mut filter: Filter) -> Result<Self, Error> {
        filter.kinds = Kinds::Runs;
        let store: Arc<dyn Query> = match source.0 {
            SourceKind::Store(store) => store,
            SourceKind::Path(path) => match open::for_reading(&path)? {
                Some(store) => store,
                None => return Self::of_export(&path, filter),
            },
        };
        let total = store.count(&filter).await?.total();
        let from = Origin::Store(Pages {
            store,
            page: VecDeque::new(),
            before: None,
            is_last: false,
            at_once: 1,
            has_outputs: false,
        });
        Ok(Self { from, filter, total })
    }

    fn of_export(path: &Path, filter: Filter) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| {
            Error::Export(ExportError { line: 1, problem: ExportProblem::Unreadable(error.to_string()) })
        })?;
        let reader = Reader::new(BufReader::new(file))?;
        let total = reader.header().runs;
        Ok(Self { from: Origin::Export(Box::new(reader)), filter, total })
    }

    /// Reads what the runs have given out as well.
    pub(crate) fn with_outputs(mut self) -> Self {
        if let Origin::Store(pages) = &mut self.from {
            pages.has_outputs = true;
        }
        self
    }

    /// Returns the number of runs, as far as known.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the next few runs; none if there are no more.
    pub(crate) async fn next(&mut self) -> Result<Vec<Exported>, Error> {
        let Self { from, filter, .. } = self;
        match from {
            Origin::Store(pages) => pages.next(filter).await,
            Origin::Export(reader) => {
                let is_meant =
                    |run: &Result<Exported, _>| run.as_ref().map_or(true, |run| filter.matches(&run.instance));
                Ok(reader.filter(is_meant).take(AT_ONCE).collect::<Result<_, _>>()?)
            }
        }
    }

    /// Reads a run once more, if it is in a store and may have made progress since.
    pub(crate) async fn again(&self, run: &Exported) -> Result<Reread, Error> {
        let Origin::Store(Pages { store, has_outputs, .. }) = &self.from else { return Ok(Reread::Same) };
        let found = store.instance(&run.instance.id).await?;
        let Some(instance) = found.filter(|found| self.filter.matches(found)) else { return Ok(Reread::Gone) };
        let now = contents(&**store, instance, *has_outputs).await?;
        Ok(if now == *run { Reread::Same } else { Reread::Changed(Box::new(now)) })
    }
}

/// Returns how many to read after these: twice as many, but no more than fit on a page if the next are alike.
fn at_once(read: &[Exported], before: usize) -> usize {
    let weight = |run: &Exported| {
        let journal = run.journal.iter().flatten().map(Weight::weight).sum::<usize>();
        let outputs = run.outputs.iter().flatten().map(Weight::weight).sum::<usize>();
        run.instance.weight() + journal + outputs + run.inbox.iter().flatten().map(Weight::weight).sum::<usize>()
    };
    let fit = PAGE_BYTES * read.len() / read.iter().map(weight).sum::<usize>().max(1);
    fit.clamp(1, before.saturating_mul(2).min(AT_ONCE))
}

/// How a run has changed since it was read.
pub(crate) enum Reread {
    Same,
    Changed(Box<Exported>),
    /// It no longer exists, or no longer matches the filter.
    Gone,
}

/// Reads everything stored about an instance. Damage is reported with the run that it concerns.
async fn contents(query: &dyn Query, instance: Instance, has_outputs: bool) -> Result<Exported, Error> {
    // The only note of a run that has not ended and is not stuck is what it waits for, or that its row is damaged.
    let is_open = !instance.status.is_ended() && instance.status != Status::Stuck;
    let is_damage = |note: &String| is_open && !awaited::is_in(note);
    let journal = match instance.note.clone().filter(is_damage) {
        Some(damage) => Err(damage),
        None => damage_apart(whole_journal(query, instance.num, 0).await)?,
    };
    let inbox = damage_apart(whole_inbox(query, instance.num).await)?;
    let outputs = match has_outputs {
        true => damage_apart(whole_outputs(query, instance.num).await)?,
        false => Ok(Vec::new()),
    };
    Ok(Exported { instance, journal, inbox, outputs })
}

fn damage_apart<T>(read: Result<T, StoreError>) -> Result<Result<T, String>, Error> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.kind == ErrorKind::Corrupt => Ok(Err(error.message)),
        Err(error) => Err(error.into()),
    }
}
