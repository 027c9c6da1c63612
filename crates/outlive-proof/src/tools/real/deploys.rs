//! Deploys a new program under waiting runs: what it does in place of the wait happens without any message.

use outlive::Workflow;
use outlive::prelude::*;

use crate::tools::real::stage::{Role, Stage, until};

const ORDER: Workflow<(), String> = Workflow::new("order");

async fn ok() -> Result<()> {
    Ok(())
}

/// The version before the deploy.
async fn old(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", ok).await?;
    let by: String = ctx.wait("approval").await?;
    Ok(by)
}

async fn without_wait(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", ok).await?;
    ctx.step("ship", ok).await?;
    Ok("shipped".to_owned())
}

async fn with_timeout(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", ok).await?;
    match ctx.wait::<String>("approval").timeout("1 second").await {
        Ok(by) => Ok(by),
        Err(error) if error.is_timeout() => Ok("expired".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// Runs its new step, and then waits again.
async fn with_step(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", ok).await?;
    ctx.step("label", ok).await?;
    Ok(ctx.wait("approval").await?)
}

async fn early_end(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", ok).await?;
    Ok("early".to_owned())
}

/// The deploys, and what must have happened to a run after each: its result, or a recorded step.
const DEPLOYS: [(&str, Outcome); 4] = [
    ("wait removed", Outcome::Result("shipped")),
    ("timeout added", Outcome::Result("expired")),
    ("step inserted", Outcome::Step("label")),
    ("early end", Outcome::Result("early")),
];

#[derive(Clone, Copy)]
enum Outcome {
    Result(&'static str),
    Step(&'static str),
}

pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let builder = Engine::open(role.store()).version(&role.name);
    let builder = match role.name.as_str() {
        "wait removed" => builder.workflow("order", without_wait),
        "timeout added" => builder.workflow("order", with_timeout),
        "step inserted" => builder.workflow("order", with_step),
        "early end" => builder.workflow("order", early_end),
        _ => builder.workflow("order", old),
    };
    let _engine = builder.start().await?;
    role.ready().await;
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let runs = stage.amount(20, 2_000);
    let mut broken = Vec::new();
    for (name, outcome) in DEPLOYS {
        if let Err(problem) = deploy(&stage.anew()?, name, outcome, runs).await {
            broken.push(format!("{name}: {problem}"));
        }
    }
    match broken.is_empty() {
        true => Ok(format!("{} deploys, {runs} waiting runs each, and all continued", DEPLOYS.len())),
        false => Err(broken.join("; ").into()),
    }
}

async fn deploy(stage: &Stage, name: &str, outcome: Outcome, runs: u64) -> Result<(), BoxError> {
    let client = stage.client()?;
    let process = stage.process("old")?;
    let mut started = Vec::new();
    for n in 0..runs {
        started.push(client.start(ORDER, &()).id(&format!("order-{n}")).await?);
    }
    until("all runs wait", async || {
        let waiting = client.count(Filter::runs().status(StatusKind::Waiting)).await?.total();
        Ok(if waiting == runs { Ok(()) } else { Err(format!("{waiting} of {runs} wait")) })
    })
    .await?;
    process.kill()?;
    let _process = stage.process(name)?;
    until("the new program continues each run", async || {
        let mut left = 0;
        for run in &started {
            let has_happened = match outcome {
                Outcome::Result(wanted) => {
                    let output = run.info().await?.output;
                    output.is_some_and(|output| output.as_str() == format!("{wanted:?}"))
                }
                Outcome::Step(step) => run.completed_steps().await?.iter().any(|done| done == step),
            };
            left += u64::from(!has_happened);
        }
        let sample = started.first().ok_or("no runs")?.info().await?;
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} of {runs} did not; one is {}", sample.status)) })
    })
    .await
}
