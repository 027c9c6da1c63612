//! Runs every workload in its own process, so that none sees what another has left in memory.

use std::path::Path;
use std::time::Instant;

use outlive::prelude::Result;
use serde_json::{Value, json};

use crate::harness::child;
use crate::harness::figures::Figures;
use crate::harness::numbers::rounded;
use crate::harness::progress;
use crate::report::machine::Machine;
use crate::report::page::{self, Results};
use crate::report::targets::TARGETS;

/// The settings of a complete run.
pub(crate) struct Plan<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) out: &'a Path,
    pub(crate) threads: usize,
    /// Factor by which all amounts are divided.
    pub(crate) shrink: u64,
    /// Returns the default amount of a workload.
    pub(crate) default_n: &'a dyn Fn(&str) -> Result<u64, String>,
}

/// A workload, about how many seconds it takes, and whether it uses the file with the crowd.
struct Stage(&'static str, u64, Place);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    Crowd,
}

use Place::{Crowd, New};

/// All workloads in order. W5 creates the crowd of sleepers; later ones reuse it.
const STAGES: [Stage; 29] = [
    Stage("floor", 1, New),
    Stage("w1", 4, New),
    Stage("w2", 2, New),
    Stage("w3", 20, New),
    Stage("w4", 6, New),
    Stage("w6", 8, New),
    Stage("w7", 10, New),
    Stage("w8", 10, New),
    Stage("w9", 4, New),
    Stage("j1", 5, New),
    Stage("j2", 5, New),
    Stage("j3", 125, New),
    Stage("j4", 5, New),
    Stage("children", 10, New),
    Stage("purge", 60, New),
    Stage("stream", 10, New),
    Stage("rewind", 10, New),
    Stage("kills", 10, New),
    Stage("resident", 2, New),
    Stage("waiters", 30, New),
    Stage("sink", 20, New),
    Stage("in-flight", 15, New),
    Stage("journal-length", 20, New),
    Stage("w5", 70, Crowd),
    Stage("idle", 100, Crowd),
    Stage("sleepers", 20, Crowd),
    Stage("w10", 80, Crowd),
    Stage("lists", 20, Crowd),
    Stage("soak", 125, New),
];
/// How long the soak and J3 last, and idle and waiters at most. It fits into a coffee break; run by itself, a soak
/// lasts longer.
const MINUTES: f64 = 2.0;
/// The shortest duration that yields meaningful figures.
const MINUTES_MIN: f64 = 0.02;

pub(crate) fn run(plan: &Plan<'_>) -> Result<Figures> {
    let begun = Instant::now();
    let bar = progress::of_stages(STAGES.iter().map(|stage| stage.1).sum());
    let mut figures = Vec::new();
    for Stage(workload, secs, place) in STAGES {
        bar.set_message(workload);
        figures.push((workload, plan.measure(workload, place)?));
        bar.inc(secs);
    }
    bar.finish_and_clear();
    let secs = begun.elapsed().as_secs_f64();
    let met = TARGETS.iter().filter(|target| target.judge(&figures).1).count();
    let machine = Machine::look(plan.dir);
    page::write(plan.out, &Results { figures: &figures, machine, secs, shrink: plan.shrink })?;
    let mut all = vec![
        ("workload", json!("all")),
        ("elapsed_secs", rounded(Some(secs), 1)),
        ("targets", json!(TARGETS.len())),
        ("targets_met", json!(met)),
        ("page", json!(plan.out.join("RESULTS.md"))),
    ];
    all.extend(figures);
    Ok(Figures::plain(all))
}

impl Plan<'_> {
    fn measure(&self, workload: &str, place: Place) -> Result<Value> {
        let n = ((self.default_n)(workload)? / self.shrink).max(1).to_string();
        let minutes = (MINUTES / self.shrink as f64).max(MINUTES_MIN).to_string();
        let threads = self.threads.to_string();
        let words = [workload, "--json", "--n", &n, "--minutes", &minutes, "--threads", &threads, "--dir"];
        let mut command = child::program(&words)?;
        command.arg(self.dir);
        if place == Crowd {
            command.arg("--file").arg(self.dir.join("crowd.db"));
        }
        child::ask(command)
    }
}
