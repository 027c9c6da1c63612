//! The commands that act on a run: cancel, terminate, retry, pause, resume and purge. Terminate and retry work on jobs
//! too.

use std::process::ExitCode;

use outlive::CancelOutcome;
use serde::Serialize;

use crate::error::Error;
use crate::facts::StatusFacts;
use crate::open::{AnyRun, RunArgs, open_instance};
use crate::out::Out;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,
}

#[derive(clap::Args)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Reason, stored with the run
    #[arg(long, default_value = "requested on the command line")]
    reason: String,
}

pub(crate) async fn cancel(args: &EndArgs, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open().await?;
    let answer = run.cancel(&args.reason).await?;
    let taken = "cancel requested; it may clean up before it ends as cancelled";
    ended(&run, answer, &args.run.store.outlook(taken, taken), out).await
}

pub(crate) async fn terminate(args: &EndArgs, out: Out) -> Result<ExitCode, Error> {
    if args.run.is_job() {
        return terminate_job(args, out).await;
    }
    let run = args.run.open().await?;
    let answer = run.terminate(&args.reason).await?;
    let taken = args.run.store.outlook("it ends at once as cancelled", "it ends as cancelled");
    ended(&run, answer, &taken, out).await
}

async fn terminate_job(args: &EndArgs, out: Out) -> Result<ExitCode, Error> {
    let opened = open_instance(args.run.store.open()?, &args.run.id)?;
    match opened.job.terminate(&opened.id, &args.reason).await {
        Ok(()) => {
            let name = opened.name();
            let (now, later) = (
                "it ends at once, and its state, inbox and wake are removed",
                "it ends, and its state, inbox and wake are removed",
            );
            out.answer(
                format!("job {name:?}: {}", args.run.store.outlook(now, later)),
                &Done { id: &name, is_taken: true, status: None },
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(opened.told(error).await),
    }
}

pub(crate) async fn retry(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open_any().await?;
    run.retry().await?;
    done(&args.run, "it resumes from its last recorded point", out)
}

pub(crate) async fn pause(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open().await?;
    run.pause().await?;
    done(&args.run, "it pauses until it is resumed", out)
}

pub(crate) async fn resume(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open().await?;
    run.resume().await?;
    done(&args.run, "it resumes", out)
}

pub(crate) async fn purge(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let run = args.run.open().await?;
    run.purge().await?;
    let sentence = format!("run {:?} is purged; its id is free", run.id());
    out.answer(sentence, &Done { id: run.id(), is_taken: true, status: None })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Done<'a> {
    id: &'a str,
    #[serde(rename = "taken")]
    is_taken: bool,
    #[serde(flatten)]
    status: Option<StatusFacts>,
}

fn done(run: &RunArgs, what: &str, out: Out) -> Result<ExitCode, Error> {
    let noun = if run.is_job() { "job" } else { "run" };
    let sentence = format!("{noun} {:?}: {}", run.id, run.store.outlook(what, what));
    out.answer(sentence, &Done { id: &run.id, is_taken: true, status: None })?;
    Ok(ExitCode::SUCCESS)
}

/// Reports whether the run was still live when its end was requested. Either way the command succeeds: the run does not
/// continue.
async fn ended(run: &AnyRun, answer: CancelOutcome, taken: &str, out: Out) -> Result<ExitCode, Error> {
    let sentence = match answer {
        CancelOutcome::Ended(status) => format!("run {:?} has already ended: {status}; nothing was changed", run.id()),
        CancelOutcome::TakenStuck => format!(
            "run {:?} was stuck and is now cancelled; its code could not continue, so its cleanup did not run: undo by \
             hand what `outlive show` lists as done",
            run.id()
        ),
        _ => format!("run {:?}: {taken}", run.id()),
    };
    let status = match answer {
        CancelOutcome::Ended(status) => status,
        _ => run.status().await?,
    };
    let is_taken = !matches!(answer, CancelOutcome::Ended(_));
    out.answer(sentence, &Done { id: run.id(), is_taken, status: Some(status.into()) })?;
    Ok(ExitCode::SUCCESS)
}
