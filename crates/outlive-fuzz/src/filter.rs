//! Applies any filter to any instances: every store finds what `Filter::matches` says, and nothing else.

use std::sync::Arc;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::kind::Kinds;
use outlive_core::message::Message;
use outlive_core::origin::RunOrigin;
use outlive_core::payload::Payload;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{Answer, Commit, Epoch, NewState, OnConflict, SendWrite, StartWrite, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::{Filter, Instance};
use outlive_core::store::{Error, Store};
use outlive_core::time::Timestamp;
use outlive_sqlite::{Durability, Options, SqliteStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bytes::Bytes;
use crate::typed;

/// One of each store, for all inputs: each input leaves them empty.
struct Stage {
    stores: Vec<(Arc<dyn Store>, Epoch)>,
    runtime: Runtime,
    _folder: TempDir,
}

thread_local! {
    static STAGE: Stage = Stage::new().expect("stores open in an empty folder");
}

/// Fills the stores, and queries them.
///
/// ```
/// outlive_fuzz::filter::run(b"shop=paris");
/// ```
///
/// # Panics
/// If a store finds what the filter does not match, or misses what it does.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let starts: Vec<(StartWrite, Status)> = (1..=bytes.below(4)).map(|token| start(&mut bytes, token)).collect();
    let filter = filter(&mut bytes);
    STAGE.with(|stage| {
        for (store, epoch) in &stage.stores {
            let checked = stage.runtime.block_on(check(&**store, *epoch, &starts, &filter));
            checked.unwrap_or_else(|error| panic!("{error}: {filter:?}"));
        }
    });
}

impl Stage {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let sqlite = SqliteStore::open(&folder.path().join("runs.db"), Options::new().durability(Durability::Relaxed))?;
        let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(sqlite)];
        let lease = |store: Arc<dyn Store>| {
            let epoch = runtime.block_on(store.lease(Timestamp::AT_ONCE))?;
            Ok::<_, Error>((store, epoch))
        };
        Ok(Self { stores: stores.into_iter().map(lease).collect::<Result<_, _>>()?, runtime, _folder: folder })
    }
}

async fn check(store: &dyn Store, epoch: Epoch, starts: &[(StartWrite, Status)], filter: &Filter) -> Result<(), Error> {
    for (start, status) in starts {
        let batch = vec![Write::Start(StartWrite { owner: epoch, ..start.clone() })];
        if let Some(Answer::Started { num, .. }) = store.write(batch.into()).await?.first() {
            store.write(vec![enter(*num, epoch, *status)].into()).await?;
        }
    }
    let all = store.list(&Filter::all(), None, usize::MAX).await?.instances;
    compare(store, filter, &all).await?;
    for Instance { num, id, .. } in all {
        // The first ends an open run, the second a stuck one.
        let message = Message::Terminate { reason: String::new() };
        let send = SendWrite { id: id.clone(), num: None, message, at: Timestamp::AT_ONCE, dedup: None, token: 1 };
        let batch = vec![enter(num, epoch, Status::Completed), Write::Message(send), Write::Purge(id, None)];
        store.write(batch.into()).await?;
    }
    assert_eq!(store.count(&Filter::all()).await?.total(), 0, "the next input needs an empty store");
    Ok(())
}

fn enter(num: InstanceNum, epoch: Epoch, status: Status) -> Write {
    let (wake, is_owned, seen, outcome, note) = (None, false, None, None, None);
    let state = Some(NewState { status, wake, is_owned, seen, outcome, note, at: Timestamp::AT_ONCE });
    Write::Commit(Commit { writes: Vec::new(), num, epoch, seq_before: 0, entries: vec![], taken: vec![], state })
}

/// Compares all pages of one instance each, and the counts, with the meaning of the filter.
async fn compare(store: &dyn Store, filter: &Filter, all: &[Instance]) -> Result<(), Error> {
    let expected: Vec<&Instance> = all.iter().filter(|instance| filter.matches(instance)).collect();
    let mut found = Vec::new();
    let mut next = None;
    loop {
        let page = store.list(filter, next, 1).await?;
        found.extend(page.instances);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    let counts = store.count(filter).await?;
    for kind in StatusKind::ALL {
        let count = expected.iter().filter(|instance| instance.status.kind() == kind).count();
        assert_eq!(counts.of(kind), count as u64, "{kind:?} of {filter:?}");
    }
    Ok(())
}

fn start(bytes: &mut Bytes<'_>, token: u64) -> (StartWrite, Status) {
    let tags = (0..bytes.below(3)).filter_map(|_| pair(bytes)).collect();
    let at = bytes.moment();
    let start = StartWrite {
        deadline: None,
        parent: None,
        id: Name::new("run id", &word(bytes)).unwrap_or_else(|_| Name::recorded("a")),
        workflow: Name::new("workflow name", &word(bytes)).unwrap_or_else(|_| Name::recorded("w")),
        input: Payload::recorded("1"),
        origin: RunOrigin::new(bytes.maybe(word).map(|version| Name::recorded(&version)), None),
        seed: 1,
        tags,
        at,
        due: at,
        on_conflict: OnConflict::Join,
        token,
        owner: Epoch(0),
    };
    let statuses = [Status::Running, Status::Completed, Status::Failed, Status::Cancelled, Status::Stuck];
    (start, bytes.pick(&statuses))
}

fn filter(bytes: &mut Bytes<'_>) -> Filter {
    let mut filter = Filter::runs();
    filter.workflow = bytes.maybe(word);
    filter.id_prefix = bytes.maybe(word);
    filter.version = bytes.maybe(word);
    filter.created_from = bytes.maybe(Bytes::moment);
    filter.created_before = bytes.maybe(Bytes::moment);
    filter.tags = (0..bytes.below(3)).filter_map(|_| pair(bytes)).collect();
    let words = StatusKind::ALL.map(StatusKind::as_str);
    for _ in 0..bytes.below(3) {
        let word = if bytes.is(10) { bytes.text() } else { bytes.pick(&words).to_owned() };
        let status = typed::status(&word);
        assert_eq!(status.is_ok(), words.contains(&word.as_str()), "{word:?}");
        filter.statuses.extend(status);
    }
    filter.kinds = bytes.pick(&[Kinds::All, Kinds::Runs, Kinds::Jobs]);
    filter
}

/// Parses a tag as it is typed.
fn pair(bytes: &mut Bytes<'_>) -> Option<(String, String)> {
    let text = if bytes.is(6) { bytes.text() } else { format!("{}={}", word(bytes), word(bytes)) };
    let pair = typed::pair(&text);
    assert_eq!(pair.is_ok(), text.find('=').is_some_and(|at| at > 0), "{text:?}");
    pair.ok().inspect(|(key, value)| assert_eq!(format!("{key}={value}"), text))
}

/// Returns a word made of what is special in SQL, JSON and Unicode, or of anything.
fn word(bytes: &mut Bytes<'_>) -> String {
    if bytes.is(5) {
        return bytes.text();
    }
    let parts = [
        "a",
        "A",
        "%",
        "_",
        "*",
        "?",
        "[",
        "'",
        "\"",
        "\\",
        "=",
        "ü",
        "Ü",
        "\u{7f}",
        "\u{d7ff}",
        "\u{10ffff}",
        "task:",
        "pool",
    ];
    (0..bytes.below(4)).map(|_| bytes.pick(&parts)).collect()
}
