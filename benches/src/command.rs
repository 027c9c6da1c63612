//! The command line of `outlive-bench`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use outlive::prelude::Result;

use crate::harness::figures::{Measured, WorkloadName};
use crate::harness::floor;
use crate::harness::setup::{Setup, THREADS};
use crate::measure::{folder, measure, runtime};
use crate::report::all::{self, Plan};
use crate::workloads::curves::{in_flight, journal_length, sleepers};
use crate::workloads::jobs::{debounce_events, pool_events, recurring_jobs, task_events};
use crate::workloads::process::{idle, kill_and_resume, kills, lists, resident, sleeping_runs, soak, waiters};
use crate::workloads::runs::{
    children, concurrency_levels, crowded_store, journal_replay, many_short_runs, one_long_run, purge, rewind,
    signal_latency, simultaneous_wakes, sink, start_latency, stream,
};

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
    /// The store of sleeping-runs, crowded-store, lists, sleepers and idle, to continue with an existing one
    #[arg(long)]
    file: Option<PathBuf>,
    /// Prints one JSON object on the last line
    #[arg(long)]
    json: bool,
    /// Worker threads of the runtime
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
    /// How long a soak lasts (default 10), or recurring-jobs, idle and waiters (default 2)
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
    /// (w1) n runs of ten steps each, all started at once
    #[value(alias = "w1")]
    ManyShortRuns,
    /// (w2) One run of n steps in sequence
    #[value(alias = "w2")]
    OneLongRun,
    /// (w3) n runs of one step and a sleep of 5 s
    #[value(alias = "w3")]
    SimultaneousWakes,
    /// (w4) n runs of ten steps, killed in the middle and resumed
    #[value(alias = "w4")]
    KillAndResume,
    /// (w5) n sleeping runs at rest
    #[value(alias = "w5")]
    SleepingRuns,
    /// (w6) n runs of ten steps with 64, 1,000 and 10,000 in flight
    #[value(alias = "w6")]
    ConcurrencyLevels,
    /// (w7) Replays journals of n entries
    #[value(alias = "w7")]
    JournalReplay,
    /// (w8) n signals to n/10 waiting runs
    #[value(alias = "w8")]
    SignalLatency,
    /// (w9) n starts by one client, and starts by 64
    #[value(alias = "w9")]
    StartLatency,
    /// (w10) n/50 short runs in a file with n sleepers and n finished runs
    #[value(alias = "w10")]
    CrowdedStore,
    /// (j1) A pool with n events
    #[value(alias = "j1")]
    PoolEvents,
    /// (j2) n events added to n/100 batches
    #[value(alias = "j2")]
    DebounceEvents,
    /// (j3) n recurring instances, each run once a minute
    #[value(alias = "j3")]
    RecurringJobs,
    /// (j4) n events sent to n/10 tasks
    #[value(alias = "j4")]
    TaskEvents,
    /// One parent that runs n children, a hundred at a time
    Children,
    /// n/50 short runs in a file from which n ended runs are being removed
    Purge,
    /// n items appended to one stream by a step, and read live
    Stream,
    /// n runs that have ended, rewound by filter
    Rewind,
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
    /// Short runs with a sink whose endpoint never responds
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
    #[value(hide = true, name = kill_and_resume::VICTIM)]
    Victim,
    #[value(hide = true, name = kill_and_resume::HEIR)]
    Heir,
    #[value(hide = true, name = kills::PRISONER)]
    Prisoner,
    #[value(hide = true, name = waiters::EXECUTOR)]
    Executor,
    #[value(hide = true, name = sleeping_runs::RESTER)]
    Rester,
}

impl Workload {
    fn n(self) -> u64 {
        match self {
            Self::OneLongRun | Self::StartLatency | Self::Waiters => 1_000,
            Self::SimultaneousWakes | Self::DebounceEvents | Self::RecurringJobs | Self::TaskEvents => 100_000,
            Self::Stream => 100_000,
            Self::PoolEvents => 200_000,
            Self::SleepingRuns | Self::CrowdedStore | Self::Sleepers | Self::Lists | Self::Idle | Self::Purge => {
                1_000_000
            }
            Self::JournalReplay | Self::SignalLatency | Self::Kills | Self::Children | Self::Rewind => 10_000,
            Self::Soak => 500,
            Self::JournalLength => 320_000,
            Self::Floor => 2 * floor::SYNCS as u64,
            _ => 20_000,
        }
    }

    /// Returns how long it lasts by default, if that does not depend on the amount.
    fn minutes(self) -> f64 {
        if matches!(self, Self::RecurringJobs | Self::Idle | Self::Waiters) { 2.0 } else { 10.0 }
    }

    async fn measure(self, setup: &Setup) -> Result<Measured> {
        match self {
            Self::ManyShortRuns => many_short_runs::run(setup).await,
            Self::OneLongRun => one_long_run::run(setup).await,
            Self::SimultaneousWakes => simultaneous_wakes::run(setup).await,
            Self::KillAndResume => kill_and_resume::run(setup).await,
            Self::SleepingRuns => sleeping_runs::run(setup).await,
            Self::ConcurrencyLevels => concurrency_levels::run(setup).await,
            Self::JournalReplay => journal_replay::run(setup).await,
            Self::SignalLatency => signal_latency::run(setup).await,
            Self::StartLatency => start_latency::run(setup).await,
            Self::CrowdedStore => crowded_store::run(setup).await,
            Self::PoolEvents => pool_events::run(setup).await,
            Self::DebounceEvents => debounce_events::run(setup).await,
            Self::RecurringJobs => recurring_jobs::run(setup).await,
            Self::TaskEvents => task_events::run(setup).await,
            Self::Children => children::run(setup).await,
            Self::Purge => purge::run(setup).await,
            Self::Stream => stream::run(setup).await,
            Self::Rewind => rewind::run(setup).await,
            Self::Kills => kills::run(setup).await,
            Self::Lists => lists::run(setup).await,
            Self::Resident => resident::run(setup).await,
            Self::Idle => idle::run(setup).await,
            Self::Waiters => waiters::run(setup).await,
            Self::Sink => sink::run(setup).await,
            Self::Soak => soak::run(setup).await,
            Self::InFlight => in_flight::run(setup).await,
            Self::JournalLength => journal_length::run(setup).await,
            Self::Sleepers => sleepers::run(setup).await,
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
        Workload::Victim => return runtime(&setup)?.block_on(kill_and_resume::be_victim(&setup)),
        Workload::Heir => return runtime(&setup)?.block_on(kill_and_resume::be_heir(&setup)),
        Workload::Prisoner => return runtime(&setup)?.block_on(kills::be_prisoner(&setup)),
        Workload::Executor => return runtime(&setup)?.block_on(waiters::be_executor(&setup)),
        Workload::Rester => runtime(&setup)?.block_on(sleeping_runs::rest(&setup))?,
        workload => {
            let value = workload.to_possible_value().ok_or("this is not a workload")?;
            // The alias, for those that have one.
            let id = value.get_name_and_aliases().last().unwrap_or_default();
            measure(WorkloadName { id, name: value.get_name() }, &setup, workload.measure(&setup))?
        }
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{figures}")?;
    if arguments.json {
        writeln!(stdout, "{}", figures.to_json())?;
    }
    Ok(())
}
