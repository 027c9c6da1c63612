//! The suites a defect is tested against, one after the other, until one finds it.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use outlive_core::store::memory::MemoryStore;
use outlive_testkit::conformance::{Case, Home, cases, differential};
use outlive_testkit::proof::programs;
use outlive_testkit::simulate::simulate_with;
use tokio::runtime::Builder;

use super::child::{NONE, Verdict};
use super::defects;
use super::homes::{Memory, Sqlite};
use crate::tools::Order;
use crate::tools::crashes::PROGRAMS;

/// The name prefix of suites whose tries are schedules.
pub(super) const SIMULATE: &str = "simulate";
/// This many schedules find most defects, and take less time than the suites that need files.
const SCHEDULES_FIRST: u64 = 2_000;

/// All suites, quick ones first.
pub(super) const SUITES: [Suite; 7] = [
    Suite { name: "conformance in memory", run: |_| in_memory() },
    Suite { name: "simulate, a first look", run: |order| simulated(order, 0, SCHEDULES_FIRST) },
    Suite { name: "conformance on SQLite", run: |_| on_sqlite() },
    Suite { name: "conformance on SQLite with another process", run: |_| beside_another() },
    Suite { name: "differential", run: |order| side_by_side(order) },
    Suite { name: "crash_everywhere", run: |order| crashed(order) },
    Suite { name: SIMULATE, run: |order| simulated(order, SCHEDULES_FIRST, order.count.unwrap_or(0)) },
];

/// A way to find a defect.
pub(super) struct Suite {
    pub(super) name: &'static str,
    run: fn(&Order) -> Tried,
}

/// Number of cases or schedules it took, and what the last of them found.
struct Tried {
    count: u64,
    found: Option<String>,
}

/// Two stores get the same writes for this many seeds, with this many writes each.
const PAIRS: u64 = 4;
const WRITES: usize = 150;

/// Cases that hold only if the sender owns the run: otherwise the wake is how the owner learns of the message.
const ONE_PROCESS: [&str; 2] = ["message_to_a_driven_run_sets_no_wake", "push_to_a_driven_instance_sets_no_wake"];

/// Location of the first panic in the product's own code: an assertion that did not hold.
static ASSERTION: OnceLock<String> = OnceLock::new();

/// Runs the suites as a process with a defect, or without any for [`NONE`]. Fails if the defect cannot be turned on.
pub(crate) fn be_mutant(name: &str, order: &Order) -> Result<(), String> {
    if name != NONE {
        turn_on(name)?;
    }
    say(name);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        if !place.contains("outlive-testkit") && place.starts_with("crates/") {
            ASSERTION.get_or_init(|| place);
        }
    }));
    for suite in &SUITES {
        let Tried { count, found } = (suite.run)(order);
        let found = match ASSERTION.get() {
            Some(place) => Some(format!("by an assertion in {place}; {}", found.unwrap_or_default())),
            None => found,
        };
        let is_over = found.is_some();
        let verdict = Verdict { suite: suite.name.to_owned(), tried: count, millis: 0, found };
        say(&serde_json::to_string(&verdict).unwrap_or_default());
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Turns a defect on until the process ends. The binary that can is built from a copy of this code, in which the last
/// line is another.
fn turn_on(name: &str) -> Result<(), String> {
    let defect = defects::all().find(|defect| defect.name == name);
    let defect = defect.ok_or_else(|| format!("there is no defect called {name}"))?;
    Err(format!("{} has no switch in this binary; run `./prove mutants`", defect.name))
}

/// Prints a line, if only to show that the process is alive.
fn say(line: &str) {
    // The reader may be gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn in_memory() -> Tried {
    judge(&cases(), || Ok(Box::new(Memory::default())))
}

fn on_sqlite() -> Tried {
    judge(&cases(), || Sqlite::new().map(|home| Box::new(home) as _))
}

fn beside_another() -> Tried {
    let cases: Vec<_> = cases().into_iter().filter(|case| !ONE_PROCESS.contains(&case.name)).collect();
    judge(&cases, || Sqlite::with_guest().map(|home| Box::new(home) as _))
}

/// Runs cases until one is broken.
fn judge(cases: &[Case], fresh: impl Fn() -> std::io::Result<Box<dyn Home>>) -> Tried {
    let judge = async |case: &Case| {
        let home = fresh().map_err(|error| format!("failed to create a folder: {error}"))?;
        case.run(home).await.map_err(|found| format!("{}: {found}", case.name))
    };
    block_on(async {
        for (count, case) in (1..).zip(cases) {
            say(".");
            if let Err(found) = judge(case).await {
                return Tried { count, found: Some(found) };
            }
        }
        Tried { count: cases.len() as u64, found: None }
    })
}

fn side_by_side(order: &Order) -> Tried {
    let pair = async |seed: u64| {
        let home = Sqlite::new().map_err(|error| format!("failed to create a folder: {error}"))?;
        let store = Arc::new(home.store()?);
        differential(store, Arc::new(MemoryStore::new()), seed, WRITES).await
    };
    block_on(async {
        for count in 1..=PAIRS {
            say(".");
            if let Err(found) = pair(order.seed.wrapping_add(count)).await {
                return Tried { count, found: Some(found) };
            }
        }
        Tried { count: PAIRS, found: None }
    })
}

/// One crash at a time, at every crash point of every program.
fn crashed(order: &Order) -> Tried {
    block_on(async {
        let mut count = 0;
        for (name, program) in PROGRAMS {
            say(".");
            match program(order.seed).try_run().await {
                Ok(report) => count += report.schedules(),
                Err(broken) => return Tried { count: count + 1, found: Some(format!("{name}: {broken}")) },
            }
        }
        Tried { count, found: None }
    })
}

/// Runs schedules from one number up to another.
fn simulated(order: &Order, first: u64, end: u64) -> Tried {
    let from = order.seed << 32;
    match simulate_with(from + first..from + end, programs, |_| say(".")) {
        Ok(_) => Tried { count: end, found: None },
        Err(broken) => Tried { count: broken.seed - from + 1, found: Some(broken.what) },
    }
}

fn block_on(suite: impl Future<Output = Tried>) -> Tried {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(suite),
        Err(error) => Tried { count: 0, found: Some(format!("failed to create a tokio runtime: {error}")) },
    }
}
