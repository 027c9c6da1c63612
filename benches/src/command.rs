//! The command line of `outlive-bench`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use outlive::prelude::Result;

use crate::all::{self, Plan};
use crate::figures::{Figures, Measured};
use crate::floor::{self, Floor};
use crate::setup::Setup;
use crate::{
    curves, idle, j1, j2, j3, j4, kills, lists, resident, sink, soak, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, waiters,
};

/// Worker threads of the runtime; the store has its own threads besides.
const THREADS: usize = 2;

/// Measures Outlive on this machine and disk.
#[derive(Parser)]
#[command(name = "outlive-bench", version)]
struct Arguments {
    #[arg(value_enum)]
    workload: Workload,
    /// How many; of what, and the default, depend on the workload
    #[arg(long)]
    n: Option<u64>,
    /// Where to create the store; defaults to a temporary folder in the current one, so that a real disk is measured
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The store of w5, w10, lists, sleepers and idle, to continue with an existing one
    #[arg(long)]
    file: Option<PathBuf>,
    /// Prints one JSON object on the last line
    #[arg(long)]
    json: bool,
    /// Worker threads of the runtime
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
    /// How long a soak lasts (default 10), or j3, idle and waiters (default 2)
    #[arg(long)]
    minutes: Option<f64>,
    /// Where `all` writes RESULTS.md and plots/
    #[arg(long, default_value = "benches")]
    out: PathBuf,
    /// Divides the amounts of `all` by this
    #[arg(long, default_value_t = 1)]
    shrink: u64,
    /// Divides the amounts of `all` by 20
    #[arg(long, conflicts_with = "shrink")]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// n runs of ten steps each, all started at once
    W1,
    /// One run of n steps in sequence
    W2,
    /// n runs of one step and a sleep of 5 s
    W3,
    /// n runs of ten steps, killed in the middle and resumed
    W4,
    /// n sleeping runs at rest
    W5,
    /// n runs of ten steps with 64, 1,000 and 10,000 in flight
    W6,
    /// Replays journals of n entries
    W7,
    /// n signals to n/10 waiting runs
    W8,
    /// n starts by one client, and starts by 64
    W9,
    /// W1 in a file with n sleepers and n finished runs
    W10,
    /// A pool with n events
    J1,
    /// n events added to n/100 batches
    J2,
    /// n recurring instances, each run once a minute
    J3,
    /// n events sent to n/10 tasks
    J4,
    /// n runs in long steps, killed twice and recovered
    Kills,
    /// Lists and counts in a file with n finished runs
    Lists,
    /// n runs that wait in memory
    Resident,
    /// One engine, fifty, and one with n sleepers, all idle
    Idle,
    /// n waiters for runs while another process writes
    Waiters,
    /// W1 with a sink whose endpoint never responds
    Sink,
    /// The disk itself, without an engine
    Floor,
    /// n runs per second, for minutes
    Soak,
    /// Throughput over runs in flight, up to n
    InFlight,
    /// Cost of a step over the length of the journal, n steps for each length
    JournalLength,
    /// Cost of a step over the number of sleepers in the file, up to n
    Sleepers,
    /// Everything, and writes RESULTS.md
    All,
    #[value(hide = true, name = w4::VICTIM)]
    Victim,
    #[value(hide = true, name = w4::HEIR)]
    Heir,
    #[value(hide = true, name = kills::PRISONER)]
    Prisoner,
    #[value(hide = true, name = waiters::EXECUTOR)]
    Executor,
    #[value(hide = true, name = w5::RESTER)]
    Rester,
}

impl Workload {
    fn n(self) -> u64 {
        match self {
            Self::W2 | Self::W9 | Self::Waiters => 1_000,
            Self::W3 | Self::J2 | Self::J3 | Self::J4 => 100_000,
            Self::J1 => 200_000,
            Self::W5 | Self::W10 | Self::Sleepers | Self::Lists | Self::Idle => 1_000_000,
            Self::W7 | Self::W8 | Self::Kills => 10_000,
            Self::Soak => 500,
            Self::JournalLength => 320_000,
            Self::Floor => 2 * floor::SYNCS as u64,
            _ => 20_000,
        }
    }

    /// Returns how long it lasts by default, if that does not depend on the amount.
    fn minutes(self) -> f64 {
        if matches!(self, Self::J3 | Self::Idle | Self::Waiters) { 2.0 } else { 10.0 }
    }

    async fn measure(self, setup: &Setup) -> Result<Measured> {
        match self {
            Self::W1 => w1::run(setup).await,
            Self::W2 => w2::run(setup).await,
            Self::W3 => w3::run(setup).await,
            Self::W4 => w4::run(setup).await,
            Self::W5 => w5::run(setup).await,
            Self::W6 => w6::run(setup).await,
            Self::W7 => w7::run(setup).await,
            Self::W8 => w8::run(setup).await,
            Self::W9 => w9::run(setup).await,
            Self::W10 => w10::run(setup).await,
            Self::J1 => j1::run(setup).await,
            Self::J2 => j2::run(setup).await,
            Self::J3 => j3::run(setup).await,
            Self::J4 => j4::run(setup).await,
            Self::Kills => kills::run(setup).await,
            Self::Lists => lists::run(setup).await,
            Self::Resident => resident::run(setup).await,
            Self::Idle => idle::run(setup).await,
            Self::Waiters => waiters::run(setup).await,
            Self::Sink => sink::run(setup).await,
            Self::Soak => soak::run(setup).await,
            Self::InFlight => curves::in_flight(setup).await,
            Self::JournalLength => curves::journal_length(setup).await,
            Self::Sleepers => curves::sleepers(setup).await,
            Self::Floor => Ok(Measured::default()),
            Self::All | Self::Victim | Self::Heir | Self::Prisoner | Self::Executor | Self::Rester => {
                Err("this is not a workload".into())
            }
        }
    }
}

/// Runs the `outlive-bench` program.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// outlive_bench::main()?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If a workload cannot be measured, or if it did not do what the promises say.
pub fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let workload = arguments.workload;
    let dir = folder(arguments.dir.as_deref().unwrap_or(Path::new(".")))?;
    let setup = Setup {
        dir: dir.path().to_owned(),
        n: arguments.n.unwrap_or_else(|| workload.n()),
        file: arguments.file.clone(),
        minutes: arguments.minutes.unwrap_or_else(|| workload.minutes()),
        threads: arguments.threads,
    };
    let figures = match workload {
        Workload::All => {
            let shrink = if arguments.quick { 20 } else { arguments.shrink.max(1) };
            let default_n = |name: &str| Workload::from_str(name, false).map(Workload::n);
            all::run(&Plan {
                dir: &setup.dir,
                out: &arguments.out,
                threads: setup.threads,
                shrink,
                default_n: &default_n,
            })?
        }
        Workload::Victim => return runtime(&setup)?.block_on(w4::be_victim(&setup)),
        Workload::Heir => return runtime(&setup)?.block_on(w4::be_heir(&setup)),
        Workload::Prisoner => return runtime(&setup)?.block_on(kills::be_prisoner(&setup)),
        Workload::Executor => return runtime(&setup)?.block_on(waiters::be_executor(&setup)),
        Workload::Rester => runtime(&setup)?.block_on(w5::rest(&setup))?,
        workload => measure(workload, &setup)?,
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{figures}")?;
    if arguments.json {
        writeln!(stdout, "{}", figures.to_json())?;
    }
    Ok(())
}

/// Measures W1: `n` runs of ten steps each, all started at once, in a temporary store below a folder.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// println!("{}", outlive_bench::measure_w1(".".as_ref(), 20_000)?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If no store can be created there.
pub fn measure_w1(dir: &Path, n: u64) -> Result<Figures> {
    measure_below(dir, Workload::W1, n)
}

/// Measures W2: one run of `n` steps in sequence, in a temporary store below a folder.
///
/// ```no_run
/// # fn main() -> outlive::prelude::Result<()> {
/// println!("{}", outlive_bench::measure_w2(".".as_ref(), 1_000)?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If no store can be created there.
pub fn measure_w2(dir: &Path, n: u64) -> Result<Figures> {
    measure_below(dir, Workload::W2, n)
}

fn measure_below(parent: &Path, workload: Workload, n: u64) -> Result<Figures> {
    let dir = folder(parent)?;
    let setup = Setup { dir: dir.path().to_owned(), n, file: None, minutes: 0.0, threads: THREADS };
    measure(workload, &setup)
}

fn measure(workload: Workload, setup: &Setup) -> Result<Figures> {
    if setup.n == 0 {
        return Err("n must be greater than zero".into());
    }
    let name = workload.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let floor = Floor::before(&setup.dir)?;
    let measured = runtime(setup)?.block_on(workload.measure(setup))?;
    Figures::of(&name, setup, measured, &floor.after(&setup.dir)?)
}

fn folder(parent: &Path) -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("outlive-bench-").tempdir_in(parent);
    made.map_err(|error| {
        format!("failed to create a temporary folder in {parent:?}: {error}; choose another one with --dir").into()
    })
}

fn runtime(setup: &Setup) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(setup.threads.max(1)).enable_all().build()?)
}
