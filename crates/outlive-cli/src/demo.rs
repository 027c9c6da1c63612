//! `outlive demo`: an order and some jobs that outlive their process twice.

mod child;
mod jobs;
mod ledger;
mod picture;
mod place;
mod plan;
mod processes;
mod report;
mod scene;
mod tally;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Client, Run, Workflow};

use crate::error::Error;
use crate::out::Out;
use place::DemoFolder;
use plan::{Act, Plan};
use processes::Processes;
use report::Report;
use scene::{RUN_ID, Scene};
use tally::Sender;
use view::View;

pub(crate) use child::{ChildArgs, run as child};

/// The workflow, by name only: the parent starts and watches it, and executes nothing.
const ORDER: Workflow<child::Order, String> = Workflow::new("order");

/// How often the run is polled.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// The time limit. The demo takes about 8 s.
const TIME_MAX: Duration = Duration::from_secs(28);

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Keep the store in this directory, to inspect it afterwards
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) async fn run(args: &Args, out: Out) -> Result<ExitCode, Error> {
    let place = DemoFolder::make(args.keep.as_deref())?;
    let mut view = View::new(out);
    let report = tokio::select! {
        played = tokio::time::timeout(TIME_MAX, play(&place, &mut view)) => played.unwrap_or_else(|_| {
            Err(Error::said(format!("the demo did not end within {TIME_MAX:?}; try again on a less busy machine")))
        })?,
        _ = tokio::signal::ctrl_c() => return Err(Error::said("the demo was interrupted; run it again to see the end")),
    };
    view.clear();
    report.tell(&place, out)
}

/// Starts the order and the process that executes it, and follows the plan until the order has ended.
async fn play(place: &DemoFolder, view: &mut View) -> Result<Report, Error> {
    view.open(place)?;
    let client = Client::open(place.store())?;
    let order = child::Order { item: "a tent".into(), cents: 12_900 };
    let run = client.start(ORDER, &order).id(RUN_ID).await?;
    let mut sender = Sender::begin(&client).await?;
    let mut processes = Processes::new(place.folder());
    view.started(processes.start()?)?;
    let mut plan = Plan::default();
    loop {
        let scene = Scene::look(&run, place).await?;
        view.show(&scene)?;
        if scene.is_over() {
            // The process finishes the work of the jobs before it exits.
            processes.wait().await?;
            return Report::new(&scene, &processes, sender.tally(&client, place).await?);
        }
        processes.check()?;
        let now = crate::time::now();
        sender.send(now).await?;
        match plan.next(&scene, now) {
            Some(act) => perform(act, &run, &mut processes, view).await?,
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

async fn perform(act: Act, run: &Run<String>, processes: &mut Processes, view: &mut View) -> Result<(), Error> {
    match act {
        Act::Kill(when) => {
            view.killed(processes.kill().await?, when)?;
            view.started(processes.start()?)
        }
        Act::Approve => {
            run.signal("approval", &child::Approval { by: "ada".into() }).await?;
            view.approved()
        }
    }
}
