//! The `outlive` command: inspects, starts and controls the runs and jobs of a store, even while another process
//! executes it.

mod act;
mod args;
mod bar;
mod bench;
mod check;
mod dead;
mod demo;
mod doctor;
mod document;
mod error;
mod escape;
mod events;
mod export;
mod facts;
mod filter;
mod follow;
mod input;
mod job;
mod jobs;
mod journal;
mod open;
mod out;
mod poke;
mod ps;
mod queue;
mod send;
mod sheet;
mod show;
mod signal;
mod start;
mod table;
mod time;
mod typed;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::error::Error;
use crate::out::Out;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match obey(cli.command, Out::new(cli.output)).await {
        Ok(code) => code,
        // The reader of our output has seen enough.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.tell();
            ExitCode::FAILURE
        }
    }
}

async fn obey(command: Option<Command>, out: Out) -> Result<ExitCode, Error> {
    match command.unwrap_or_default() {
        Command::Demo(args) => demo::run(&args, out).await,
        Command::DemoChild(args) => demo::child(&args).await,
        Command::Ps(args) => ps::run(&args, out).await,
        Command::Show(args) => show::run(&args, out).await,
        Command::Start(args) => start::run(&args, out).await,
        Command::Signal(args) => signal::run(&args, out).await,
        Command::Cancel(args) => act::cancel(&args, out).await,
        Command::Terminate(args) => act::terminate(&args, out).await,
        Command::Retry(args) => act::retry(&args, out).await,
        Command::Pause(args) => act::pause(&args, out).await,
        Command::Resume(args) => act::resume(&args, out).await,
        Command::Purge(args) => act::purge(&args, out).await,
        Command::Jobs(args) => jobs::run(&args, out).await,
        Command::Job(args) => job::run(&args, out).await,
        Command::Trigger(args) => poke::trigger(&args, out).await,
        Command::Send(args) => send::run(&args, out).await,
        Command::Flush(args) => poke::flush(&args, out).await,
        Command::Dead(command) => dead::run(&command, out).await,
        Command::Queue(command) => queue::run(&command, out).await,
        Command::Events(args) => events::run(&args, out).await,
        Command::Doctor(args) => doctor::run(&args, out).await,
        Command::Check(args) => check::run(&args, out).await,
        Command::Bench(args) => bench::run(&args, out).await,
        Command::Export(args) => export::run(&args, out).await,
    }
}
