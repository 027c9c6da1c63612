//! `outlive trigger` and `outlive flush`: make an instance of a job act now.

use std::process::ExitCode;

use serde_json::json;

use crate::error::Error;
use crate::open::{InstanceArgs, Opened};
use crate::out::Out;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    instance: InstanceArgs,
}

pub(crate) async fn trigger(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let opened = args.instance.open()?;
    let told = opened.job.trigger(&opened.id).await;
    let what = args.instance.store.outlook("it is executed now", "it is executed");
    done(&opened, told, &what, out).await
}

pub(crate) async fn flush(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let opened = args.instance.open()?;
    let told = opened.job.flush(&opened.id).await;
    let what = args.instance.store.outlook("its batch is flushed now", "its batch is flushed");
    done(&opened, told, &what, out).await
}

async fn done(opened: &Opened, told: Result<(), outlive::Error>, what: &str, out: Out) -> Result<ExitCode, Error> {
    if let Err(error) = told {
        return Err(opened.told(error).await);
    }
    let name = opened.name();
    out.answer(format!("job {name:?}: {what}"), &json!({ "instance": name, "taken": true }))?;
    Ok(ExitCode::SUCCESS)
}
