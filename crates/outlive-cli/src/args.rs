//! The command-line grammar.

use clap::{Parser, Subcommand};

use crate::out::Format;
use crate::{
    act, bench, check, dead, demo, doctor, events, export, job, jobs, poke, ps, queue, send, show, signal, start,
};

/// Inspect and control durable workflows and jobs, even while another process executes them
#[derive(Parser)]
#[command(name = "outlive", version, after_help = "Without a command, `outlive` runs the demo.")]
pub(crate) struct Cli {
    /// Output format: tables for people, or JSON for programs
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an order and some jobs in a child process, kill it twice, and watch them complete anyway
    Demo(demo::Args),
    #[command(hide = true)]
    DemoChild(demo::ChildArgs),
    /// List the runs of a store, newest first, with a count by status
    Ps(ps::Args),
    /// Show a run and its journal
    Show(show::Args),
    /// Start a run, or join the existing one with the same id and input
    Start(start::Args),
    /// Send a named value to a run, to be received by its `wait`
    Signal(signal::Args),
    /// Ask a run to end; it may clean up first
    Cancel(act::EndArgs),
    /// End a run at once, without cleanup, or remove an instance of a job
    Terminate(act::EndArgs),
    /// Resume a failed or stuck run, or a stuck job, from its last recorded point
    Retry(act::Args),
    /// Pause a run until it is resumed
    Pause(act::Args),
    /// Resume a paused run
    Resume(act::Args),
    /// Remove everything stored about a run that has ended
    Purge(act::Args),
    /// List the jobs of a store with their counts and next runs, or the instances of one job
    Jobs(jobs::Args),
    /// Show an instance of a job: its state, its pending messages and its next run
    Job(job::Args),
    /// Execute an instance of a job now
    Trigger(poke::Args),
    /// Send an event to a job
    Send(send::Args),
    /// Flush the batch of a debounce job now
    Flush(poke::Args),
    /// List, retry or drop dead letters: events that a job gave up, or signals that a run could not read
    #[command(subcommand)]
    Dead(dead::Command),
    /// Pause, resume or drain the queue of a pool
    #[command(subcommand)]
    Queue(queue::Command),
    /// Print the lifecycle events of a store, and follow new ones
    Events(events::Args),
    /// Check a store for damage and violated invariants, and say how to fix them
    Doctor(doctor::Args),
    /// Check how unfinished runs would continue with a program's code: `outlive check FILE -- ./my-app`
    Check(check::Args),
    /// Measure the throughput and latency of durable steps on this machine and disk
    Bench(bench::Args),
    /// Write runs and their journals to a file, to archive, share or check them
    Export(export::Args),
}

impl Default for Command {
    fn default() -> Self {
        Self::Demo(demo::Args::default())
    }
}
