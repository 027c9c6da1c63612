//! The conformance suite for authors of stores: one case for each promise that the engine relies on.
//!
//! Implement [`Store`] and [`Query`](outlive_core::store::query::Query), then tell the suite where an empty store lives
//! and how to open it: that is a [`Home`]. [`run_all`] runs every [`Case`] on a home of its own, and opens the same home
//! again where the case is about a crash. It panics with the list of broken promises.
//!
//! [`differential`] then applies the same random writes to your store and to the
//! [`MemoryStore`](outlive_core::store::memory::MemoryStore), and reports the first difference. It finds what no case
//! asks about, so give it many seeds.
//!
//! ```
//! use std::sync::Arc;
//!
//! use outlive_core::store::memory::MemoryStore;
//! use outlive_testkit::conformance::{Home, Opening, differential, run_all};
//! # use outlive_core::store::memory::MemoryStore as YourStore;
//!
//! /// Holds an empty store. A store in a file would have a temporary directory here, and open the file each time.
//! #[derive(Default)]
//! struct Place(Arc<YourStore>);
//!
//! impl Home for Place {
//!     fn open(&self) -> Opening<'_> {
//!         let store = self.0.clone();
//!         Box::pin(async move { Ok(store as _) })
//!     }
//! }
//!
//! // In your tests, each of these is a `#[tokio::test]`.
//! async fn every_promise_of_a_store_is_kept() {
//!     let report = run_all(|| Box::new(Place::default())).await;
//!     assert!(report.passed > 0);
//! }
//!
//! async fn the_store_and_the_memory_store_do_the_same() {
//!     for seed in 0..10 {
//!         let store = Place::default().open().await.unwrap();
//!         differential(Arc::new(MemoryStore::new()), store, seed, 100).await.unwrap();
//!     }
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # every_promise_of_a_store_is_kept().await;
//! # the_store_and_the_memory_store_do_the_same().await;
//! # }
//! ```
//!
//! While you work on one promise, pick its case from [`cases`] by name and [run](Case::run) it alone.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::store::Store;

use self::world::World;

pub use self::differential::differential;

/// Lists the cases of a module under their function names.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) fn cases() -> Vec<super::Case> {
            vec![$(super::Case { name: stringify!($case), check: |world| Box::pin($case(world)) }),*]
        }
    };
}

mod claims;
mod commits;
mod dead_letters;
mod differential;
mod ends;
mod expiry;
mod families;
mod feeds;
mod fences;
mod filters;
mod inboxes;
mod jobs;
mod lists;
mod outputs;
mod pages;
mod pair;
mod pushes;
mod queues;
mod random;
mod recoveries;
mod repairs;
mod repeats;
mod restarts;
mod starts;
mod stuck;
mod turns;
mod values;
mod wakes;
mod world;

/// A store being opened.
///
/// ```
/// use outlive_core::store::memory::MemoryStore;
/// use outlive_testkit::conformance::Opening;
/// use std::sync::Arc;
/// fn opening() -> Opening<'static> { Box::pin(async { Ok(Arc::new(MemoryStore::new()) as _) }) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// assert_eq!(opening().await.unwrap().durability(), "memory: none");
/// # }
/// ```
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, String>> + Send + 'a>>;

/// The location of one store's data, initially empty.
///
/// ```
/// use outlive_core::store::memory::MemoryStore;
/// use outlive_testkit::conformance::{Home, Opening};
/// use std::sync::Arc;
///
/// /// A store in memory survives a crash only if something keeps it alive. A file would be opened again.
/// #[derive(Default)]
/// struct Memory(Arc<MemoryStore>);
/// impl Home for Memory {
///     fn open(&self) -> Opening<'_> {
///         let store = self.0.clone();
///         Box::pin(async move { Ok(store as _) })
///     }
/// }
/// ```
pub trait Home: Send + Sync {
    /// Opens the store. A case may call this again, as a process does after a crash: it has dropped the previous store
    /// without releasing its lease.
    fn open(&self) -> Opening<'_>;
}

type Checking<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// One promise.
///
/// ```
/// use outlive_testkit::conformance::{Case, cases};
/// let first: Case = cases()[0];
/// println!("{}", first.name.replace('_', " "));
/// ```
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise as a sentence, with underscores.
    pub name: &'static str,
    check: for<'a> fn(&'a mut World) -> Checking<'a>,
}

impl Case {
    /// Checks whether the store keeps the promise.
    ///
    /// ```
    /// # use outlive_testkit::conformance::cases;
    /// # use std::sync::Arc;
    /// # use outlive_core::store::memory::MemoryStore;
    /// # use outlive_testkit::conformance::{Home, Opening};
    /// # #[derive(Default)]
    /// # struct Memory(Arc<MemoryStore>);
    /// # impl Home for Memory {
    /// #     fn open(&self) -> Opening<'_> {
    /// #         let store = self.0.clone();
    /// #         Box::pin(async move { Ok(store as _) })
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// for case in cases().iter().filter(|case| case.name.contains("signal")) {
    ///     case.run(Box::new(Memory::default())).await.unwrap();
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// What was found instead, and the line of the suite.
    pub async fn run(&self, home: Box<dyn Home>) -> Result<(), String> {
        let mut world = World::open(home).await?;
        let mut checking = (self.check)(&mut world);
        // A panic is a broken promise too, and must not hide the others.
        let mut poll = |cx: &mut Context<'_>| catch_unwind(AssertUnwindSafe(|| checking.as_mut().poll(cx)));
        poll_fn(|cx| poll(cx).unwrap_or_else(|panic| Poll::Ready(Err(what_it_said(panic.as_ref()))))).await
    }
}

fn what_it_said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("with no message"))
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns all cases.
///
/// ```
/// use outlive_testkit::conformance::cases;
/// assert!(cases().iter().any(|case| case.name.contains("signal")));
/// ```
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        starts::cases(),
        commits::cases(),
        repeats::cases(),
        fences::cases(),
        recoveries::cases(),
        wakes::cases(),
        inboxes::cases(),
        stuck::cases(),
        ends::cases(),
        repairs::cases(),
        families::cases(),
        outputs::cases(),
        restarts::cases(),
        expiry::cases(),
        claims::cases(),
        lists::cases(),
        pages::cases(),
        filters::cases(),
        values::cases(),
        pushes::cases(),
        turns::cases(),
        queues::cases(),
        dead_letters::cases(),
        feeds::cases(),
    ]
    .concat()
}

/// The result of a conformance run.
///
/// ```
/// # use outlive_testkit::conformance::{Report, cases, run_all};
/// # use std::sync::Arc;
/// # use outlive_core::store::memory::MemoryStore;
/// # use outlive_testkit::conformance::{Home, Opening};
/// # #[derive(Default)]
/// # struct Memory(Arc<MemoryStore>);
/// # impl Home for Memory {
/// #     fn open(&self) -> Opening<'_> {
/// #         let store = self.0.clone();
/// #         Box::pin(async move { Ok(store as _) })
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report: Report = run_all(|| Box::new(Memory::default())).await;
/// assert_eq!(report.passed, cases().len());
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Number of promises kept: all of them, since a broken one panics.
    pub passed: usize,
}

/// Runs every case, each on a fresh store.
///
/// ```
/// # use outlive_testkit::conformance::run_all;
/// # use std::sync::Arc;
/// # use outlive_core::store::memory::MemoryStore;
/// # use outlive_testkit::conformance::{Home, Opening};
/// # #[derive(Default)]
/// # struct Memory(Arc<MemoryStore>);
/// # impl Home for Memory {
/// #     fn open(&self) -> Opening<'_> {
/// #         let store = self.0.clone();
/// #         Box::pin(async move { Ok(store as _) })
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// run_all(|| Box::new(Memory::default())).await;
/// # }
/// ```
///
/// # Panics
/// With the list of broken promises, if there are any.
pub async fn run_all(fresh: impl Fn() -> Box<dyn Home>) -> Report {
    let cases = cases();
    let mut broken = Vec::new();
    for case in &cases {
        if let Err(found) = case.run(fresh()).await {
            broken.push(format!("{}\n    {found}", case.name));
        }
    }
    let passed = cases.len() - broken.len();
    say(&format!("store conformance: {passed} of {} promises kept", cases.len()));
    assert!(broken.is_empty(), "{} broken promises:\n{}", broken.len(), broken.join("\n"));
    Report { passed }
}

#[expect(clippy::print_stdout, reason = "the count is useful when the suite is run by hand")]
fn say(line: &str) {
    println!("{line}");
}
