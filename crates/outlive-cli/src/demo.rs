//! `outlive demo`: an order and some jobs that outlive their process twice.

mod child;
mod execution_log;
mod folder;
mod jobs;
mod picture;
mod plan;
mod processes;
mod report;
mod snapshot;
mod tally;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Client, Run, Workflow};

use crate::error::CliError;
use crate::output::printer::Printer;
use folder::DemoFolder;
use plan::{DemoAction, Plan};
use processes::Processes;
use report::DemoReport;
use snapshot::{OrderSnapshot, RUN_ID};
use tally::Sender;
use view::DemoView;

pub(crate) use child::{ChildArgs, run as child};

/// The workflow, by name only: the parent starts and watches it, and executes nothing.
const ORDER: Workflow<child::DemoOrder, String> = Workflow::new("order");

/// How often the run is polled.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// The time limit. The demo takes about 8 s.
const TIME_MAX: Duration = Duration::from_secs(28);

#[derive(clap::Args, Default)]
pub(crate) struct DemoArgs {
    /// Keep the store in this directory, to inspect it afterwards
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) async fn run(args: &DemoArgs, out: Printer) -> Result<ExitCode, CliError> {
    let folder = DemoFolder::make(args.keep.as_deref())?;
    let mut view = DemoView::new(out);
    let report = tokio::select! {
        played = tokio::time::timeout(TIME_MAX, play(&folder, &mut view)) => played.unwrap_or_else(|_| {
            Err(CliError::message(format!("the demo did not end within {TIME_MAX:?}; try again on a less busy machine")))
        })?,
        _ = tokio::signal::ctrl_c() => return Err(CliError::message("the demo was interrupted; run it again to see the end")),
    };
    view.clear();
    report.print(&folder, out)
}

/// Starts the order and the process that executes it, and follows the plan until the order has ended.
async fn play(folder: &DemoFolder, view: &mut DemoView) -> Result<DemoReport, CliError> {
    view.open(folder)?;
    let client = Client::open(folder.store())?;
    let order = child::DemoOrder { item: "a tent".into(), cents: 12_900 };
    let run = client.start(ORDER, &order).id(RUN_ID).await?;
    let mut sender = Sender::begin(&client).await?;
    let mut processes = Processes::new(folder.path());
    view.started(processes.start()?)?;
    let mut plan = Plan::default();
    loop {
        let snapshot = OrderSnapshot::look(&run, folder).await?;
        view.show(&snapshot)?;
        if snapshot.is_over() {
            // The process finishes the work of the jobs before it exits.
            processes.wait().await?;
            return DemoReport::new(&snapshot, &processes, sender.tally(&client, folder).await?);
        }
        processes.check()?;
        let now = crate::output::time::now();
        sender.send(now).await?;
        match plan.next(&snapshot, now) {
            Some(action) => perform(action, &run, &mut processes, view).await?,
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

async fn perform(
    action: DemoAction,
    run: &Run<String>,
    processes: &mut Processes,
    view: &mut DemoView,
) -> Result<(), CliError> {
    match action {
        DemoAction::Kill(when) => {
            view.killed(processes.kill().await?, when)?;
            view.started(processes.start()?)
        }
        DemoAction::Approve => {
            run.signal("approval", &child::Approval { by: "ada".into() }).await?;
            view.approved()
        }
    }
}
