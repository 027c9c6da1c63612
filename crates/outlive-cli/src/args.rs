//! What can be typed after `outlive`.

use clap::{Parser, Subcommand};

use crate::out::Format;
use crate::{
    act, bench, check, dead, demo, doctor, events, export, job, jobs, poke, ps, queue, send, show, signal, start,
};

/// Durable workflows and jobs: see, start and tell those of a store, also while another process executes them.
#[derive(Parser)]
#[command(name = "outlive", version, after_help = "Without a command, `outlive` shows the demo.")]
pub(crate) struct Cli {
    /// For people, or one JSON document for programs
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an order and jobs in a child process, kill it twice, and see them end as if nothing had happened
    Demo(demo::Args),
    #[command(hide = true)]
    DemoChild(demo::ChildArgs),
    /// List the runs of a store, newest first, and count them by status
    Ps(ps::Args),
    /// Show a run and its journal
    Show(show::Args),
    /// Start a run, or join the one that has this id and the same input
    Start(start::Args),
    /// Send a named value to a run, which its `wait` gets
    Signal(signal::Args),
    /// Ask a run to end; it may clean up
    Cancel(act::EndArgs),
    /// End a run at once, with no clean-up; or an instance of a job, with all that is kept of it
    Terminate(act::EndArgs),
    /// Have a failed or stuck run, or a stuck job, go on from its last recorded point
    Retry(act::Args),
    /// Stop a run from going on until it is resumed
    Pause(act::Args),
    /// Have a run go on after a pause
    Resume(act::Args),
    /// Remove all that is kept of a run that has ended
    Purge(act::Args),
    /// List the jobs of a store with their counts and next runs, or the instances of one of them
    Jobs(jobs::Args),
    /// Show an instance of a job: its state, what waits for it, when it goes on
    Job(job::Args),
    /// Have an instance of a job executed now
    Trigger(poke::Args),
    /// Send an event to a job
    Send(send::Args),
    /// Have the batch of a debounce flushed now
    Flush(poke::Args),
    /// What a job has given up, or signals that a run could not read: list them, try them again, or drop them
    #[command(subcommand)]
    Dead(dead::Command),
    /// The queue of a pool: pause it, resume it, or wait until it is empty
    #[command(subcommand)]
    Queue(queue::Command),
    /// Tell what has happened in a store, and follow what happens
    Events(events::Args),
    /// Examine a store: whether all holds that should, and what to do where it does not
    Doctor(doctor::Args),
    /// Say what would become of unfinished runs with the code of a program: `outlive check FILE -- ./my-app`
    Check(check::Args),
    /// Measure durable steps on this machine and disk: how many a second, and how long one takes
    Bench(bench::Args),
    /// Write runs with their journals to a file, to keep, send or check them
    Export(export::Args),
}

impl Default for Command {
    fn default() -> Self {
        Self::Demo(demo::Args::default())
    }
}
