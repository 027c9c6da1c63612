//! The commands of `outlive`, one file each, and the function that runs the requested one.

mod job;
mod run;
mod store;

use std::process::ExitCode;

use clap::Subcommand;

use self::job::{dead, flush, list as jobs, queue, send, show as job_show, trigger};
use self::run::{
    ask, bulk::ManyArgs, cancel, fork, pause, ps, purge, request::EndArgs, resume, retry, rewind, show, signal, start,
    stream, terminate, tree, value,
};
use self::store::{bench, check, compact, doctor, events, export};
use crate::demo;
use crate::error::CliError;
use crate::open::{InstanceArgs, RunArgs};
use crate::output::printer::Printer;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an order and some jobs in a child process, kill it twice, and watch them complete anyway
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoChild(demo::ChildArgs),
    /// List the runs of a store, newest first, with a count by status
    Ps(ps::PsArgs),
    /// Show a run and its journal
    Show(show::ShowArgs),
    /// Show a run with its children, their children and so on, as a tree
    Tree(tree::TreeArgs),
    /// Start a run, or join the existing one with the same id and input
    Start(start::StartArgs),
    /// Send a named value to a run, to be received by its `wait`
    Signal(signal::SignalArgs),
    /// Ask a run a question, to be answered by its `wait_ask`
    Ask(ask::AskArgs),
    /// Print what a run has published
    Value(value::ValueArgs),
    /// Print the items of a stream of a run, and follow it
    Stream(stream::StreamArgs),
    /// Ask a run to end, or with --where many; they may clean up first
    Cancel(cancel::CancelArgs),
    /// End a run at once, without cleanup, or remove an instance of a job
    Terminate(EndArgs),
    /// Resume a failed or stuck run, a stuck job, or with --where many runs, from the last recorded point
    Retry(ManyArgs),
    /// Make a run, or with --where many, forget what it did after a point, and continue from there
    Rewind(rewind::RewindArgs),
    /// Create a run that continues from a point of another one, with another input if wanted
    Fork(fork::ForkArgs),
    /// Pause a run until it is resumed
    Pause(RunArgs),
    /// Resume a paused run
    Resume(RunArgs),
    /// Remove everything stored about a run that has ended, or with --where about many
    Purge(ManyArgs),
    /// List the jobs of a store with their counts and next runs, or the instances of one job
    Jobs(jobs::JobsArgs),
    /// Show an instance of a job: its state, its pending messages and its next run
    Job(job_show::JobArgs),
    /// Execute an instance of a job now
    Trigger(InstanceArgs),
    /// Send an event to a job
    Send(send::SendArgs),
    /// Flush the batch of a debounce job now
    Flush(InstanceArgs),
    /// List, retry or discard dead letters: events that a job gave up, or signals that a run could not read
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Pause or resume the queue of a pool, or wait until it is idle
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Print the lifecycle events of a store, and follow new ones
    Events(events::EventsArgs),
    /// Check a store for damage and violated invariants, and say how to fix them
    Doctor(doctor::DoctorArgs),
    /// Give the space that removed runs have left behind back to the disk; no program may execute the file
    Compact(compact::CompactArgs),
    /// Check how unfinished runs would continue with a program's code: `outlive check FILE -- ./my-app`
    Check(check::CheckArgs),
    /// Measure the throughput and latency of durable steps on this machine and disk
    Bench(bench::BenchArgs),
    /// Write runs and their journals to a file, to archive, share or check them
    Export(export::ExportArgs),
}

impl Default for Command {
    fn default() -> Self {
        Self::Demo(demo::DemoArgs::default())
    }
}

impl Command {
    pub(crate) async fn run(self, out: Printer) -> Result<ExitCode, CliError> {
        match self {
            Self::Demo(args) => demo::run(&args, out).await,
            Self::DemoChild(args) => demo::child(&args).await,
            Self::Ps(args) => ps::run(&args, out).await,
            Self::Show(args) => show::run(&args, out).await,
            Self::Tree(args) => tree::run(&args, out).await,
            Self::Start(args) => start::run(&args, out).await,
            Self::Signal(args) => signal::run(&args, out).await,
            Self::Ask(args) => ask::run(&args, out).await,
            Self::Value(args) => value::run(&args, out).await,
            Self::Stream(args) => stream::run(&args, out).await,
            Self::Cancel(args) => cancel::run(&args, out).await,
            Self::Terminate(args) => terminate::run(&args, out).await,
            Self::Retry(args) => retry::run(&args, out).await,
            Self::Rewind(args) => rewind::run(&args, out).await,
            Self::Fork(args) => fork::run(&args, out).await,
            Self::Pause(args) => pause::run(&args, out).await,
            Self::Resume(args) => resume::run(&args, out).await,
            Self::Purge(args) => purge::run(&args, out).await,
            Self::Jobs(args) => jobs::run(&args, out).await,
            Self::Job(args) => job_show::run(&args, out).await,
            Self::Trigger(args) => trigger::run(&args, out).await,
            Self::Send(args) => send::run(&args, out).await,
            Self::Flush(args) => flush::run(&args, out).await,
            Self::Dead(command) => dead::run(&command, out).await,
            Self::Queue(command) => queue::run(&command, out).await,
            Self::Events(args) => events::run(&args, out).await,
            Self::Doctor(args) => doctor::run(&args, out).await,
            Self::Compact(args) => compact::run(&args, out).await,
            Self::Check(args) => check::run(&args, out).await,
            Self::Bench(args) => bench::run(&args, out).await,
            Self::Export(args) => export::run(&args, out).await,
        }
    }
}
