//! Scenarios with the real clock and real processes, through the public API alone: deploys, downtime, kills, a second
//! executor, many clients, jobs, long waits, clock jumps.
#![expect(clippy::disallowed_methods, reason = "real processes run in real time")]

mod clients;
mod clocks;
mod deploys;
mod foreign;
mod jobs;
mod messages;
mod names;
mod recovery;
mod stage;
mod timers;
mod waits;

use std::process::ExitCode;
use std::time::Instant;

use outlive::BoxError;

use crate::tools::real::stage::{Role, Stage};
use crate::tools::{Lines, Order};

/// A scenario.
#[derive(Clone, Copy)]
enum Scenario {
    Deploys,
    Timers,
    Messages,
    Recovery,
    Names,
    Foreign,
    Clients,
    Jobs,
    Waits,
    Clocks,
}

/// All scenarios, by the names that `--only` takes.
const SCENARIOS: [(&str, Scenario); 10] = [
    ("deploys", Scenario::Deploys),
    ("timers", Scenario::Timers),
    ("messages", Scenario::Messages),
    ("recovery", Scenario::Recovery),
    ("names", Scenario::Names),
    ("foreign", Scenario::Foreign),
    ("clients", Scenario::Clients),
    ("jobs", Scenario::Jobs),
    ("waits", Scenario::Waits),
    ("clocks", Scenario::Clocks),
];

impl Scenario {
    /// Runs the scenario. Returns what was seen; the error says which promise was broken, and what was seen instead.
    async fn play(self, stage: &Stage) -> Result<String, BoxError> {
        match self {
            Self::Deploys => deploys::play(stage).await,
            Self::Timers => timers::play(stage).await,
            Self::Messages => messages::play(stage).await,
            Self::Recovery => recovery::play(stage).await,
            Self::Names => names::play(stage).await,
            Self::Foreign => foreign::play(stage).await,
            Self::Clients => clients::play(stage).await,
            Self::Jobs => jobs::play(stage).await,
            Self::Waits => waits::play(stage).await,
            Self::Clocks => clocks::play(stage).await,
        }
    }

    /// Runs as one of its processes.
    async fn execute(self, role: &Role) -> Result<(), BoxError> {
        match self {
            Self::Deploys => deploys::execute(role).await,
            Self::Timers => timers::execute(role).await,
            Self::Messages => messages::execute(role).await,
            Self::Recovery => recovery::execute(role).await,
            Self::Names => names::execute(role).await,
            Self::Foreign => foreign::execute(role).await,
            Self::Clients => clients::execute(role).await,
            Self::Jobs => jobs::execute(role).await,
            Self::Waits => waits::execute(role).await,
            Self::Clocks => clocks::execute(role).await,
        }
    }
}

/// Runs as a process of a scenario, if this process was started as one.
#[expect(clippy::print_stderr, reason = "a process reports errors on stderr")]
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let role = Role::asked()?;
    let scenario = SCENARIOS.iter().find(|(name, _)| *name == role.scenario)?.1;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().ok()?;
    Some(match runtime.block_on(scenario.execute(&role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("process {}/{}: {error}", role.scenario, role.name);
            ExitCode::FAILURE
        }
    })
}

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let is_meant = |name: &str| order.only.as_deref().is_none_or(|only| only == name);
    let meant: Vec<_> = SCENARIOS.into_iter().filter(|(name, _)| is_meant(name)).collect();
    if meant.is_empty() {
        return Err(format!("unknown scenario {:?}; use one of {:?}", order.only, SCENARIOS.map(|(name, _)| name)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let (mut lines, mut broken) = (Lines::new(), Vec::new());
    for (name, scenario) in meant {
        let begun = Instant::now();
        let stage = Stage::new(name, order.is_long).map_err(|error| error.to_string())?;
        match runtime.block_on(scenario.play(&stage)) {
            Ok(seen) => lines.push((name.to_owned(), format!("{seen}; {:.1} s", begun.elapsed().as_secs_f64()))),
            Err(problem) => broken.push(format!("{name}: {problem} (reproduce with: ./prove real --only {name})")),
        }
    }
    if broken.is_empty() { Ok(lines) } else { Err(broken.join("\n  ")) }
}
