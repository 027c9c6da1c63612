//! Jobs that never end: those that let time pass are allowed, the others are reported in a readable way.

use std::time::Duration;

use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::simulate::{simulate, try_simulate};

const REMINDERS: Task<String, Vec<String>> = Task::new("reminders");

async fn note_event(ctx: TaskCtx<String, Vec<String>>, event: String) -> Result<()> {
    ctx.schedule_in("1 hour")?;
    ctx.update_state(|events| events.push(event));
    Ok(())
}

/// As in the guide.
async fn remind(ctx: TaskCtx<String, Vec<String>>) -> Result<()> {
    Ok(ctx.schedule_in("1 day")?)
}

/// What broke: it was reported as an endless loop, with a trace of 9.8 MB.
#[test]
fn task_that_schedules_itself_is_not_an_endless_loop() {
    let report = simulate(0..40, |sim| {
        sim.engine(|engine| engine.job(REMINDERS.on_event(note_event).execute(remind)));
        sim.send("task:reminders", "42", "placed");
        sim.check(|end| {
            let job = &end.jobs["task:reminders:42"];
            let (runs, is_planned) = (job.record.as_ref().map_or(0, |record| record.runs), job.next_run.is_some());
            if runs >= 40 && is_planned { Ok(()) } else { Err(format!("{runs} runs, planned: {is_planned}")) }
        });
    });
    assert_eq!(report.worlds, 40);
}

async fn remind_at_most(ctx: TaskCtx<String, Vec<String>>) -> Result<()> {
    let count = ctx.update_state(|events| {
        events.push("reminded".to_owned());
        events.len()
    });
    if count < 30 { Ok(ctx.schedule_in("1 day")?) } else { Ok(()) }
}

#[test]
fn task_that_stops_scheduling_itself_is_run_to_its_end() {
    simulate(0..20, |sim| {
        sim.engine(|engine| engine.job(REMINDERS.on_event(note_event).execute(remind_at_most)));
        sim.send("task:reminders", "42", "placed");
        sim.check(|end| match end.jobs["task:reminders:42"].state::<Vec<String>>().map(|all| all.len()) {
            Some(30) => Ok(()),
            other => Err(format!("it stopped at {other:?}")),
        });
    });
}

const AGAIN: WorkerPool<u32> = WorkerPool::new("again");

async fn push_later(ctx: WorkerPoolCtx<u32>, n: u32) -> Result<()> {
    ctx.push(AGAIN, &(n + 1))?.delay("1 day");
    Ok(())
}

#[test]
fn pool_that_pushes_delayed_events_to_itself_is_not_an_endless_loop() {
    simulate(0..40, |sim| {
        sim.engine(|engine| engine.job(AGAIN.concurrency(1).execute(push_later)));
        sim.push("pool:again", &1);
        sim.check(|end| match end.jobs["pool:again:main"].accepted::<u32>().into_iter().max() {
            Some(40..) => Ok(()),
            other => Err(format!("it stopped at {other:?}")),
        });
    });
}

async fn tries(ctx: Ctx, _: ()) -> Result<()> {
    while ctx.step("try", || async { Err::<(), _>("not yet") }).await.is_err() {}
    Ok(())
}

/// A loop in which no time passes never ends; its report must stay readable.
#[test]
fn endless_loop_is_reported_in_200_lines() {
    let broken = try_simulate(0..1, |sim| {
        sim.engine(|engine| engine.workflow("w", tries));
        sim.start("w", "a", &());
    });
    let broken = broken.unwrap_err();
    let what = "the world never comes to rest: 20000 moves since the last fault; run a is running";
    assert_eq!(broken.what, what);
    let printed = broken.to_string();
    let (lines, shown) = (broken.trace.len(), printed.lines().count());
    assert!(lines > 20_000 && shown == 203, "{shown} lines of {lines}");
    assert!(printed.starts_with(&format!("… {} earlier lines\n", lines - 200)), "{}", &printed[..200]);
}

async fn hurry(ctx: TaskCtx<String, Vec<String>>) -> Result<()> {
    let count = ctx.update_state(|events| {
        events.push("x".to_owned());
        events.len()
    });
    Ok(ctx.schedule_in(if count < 300 { Duration::ZERO } else { Duration::from_secs(3_600) })?)
}

#[test]
fn trace_of_jobs_is_readable() {
    let broken = try_simulate([3], |sim| {
        sim.engine(|engine| {
            let (task, pool) =
                (REMINDERS.on_event(note_event).execute(hurry), AGAIN.concurrency(1).execute(push_later));
            engine.job(task).job(pool)
        });
        sim.send("task:reminders", "42", "placed");
        sim.push("pool:again", &1).delay("1 minute");
        sim.check(|_| Err("a look at it".to_owned()));
    });
    let broken = broken.unwrap_err();
    let trace = broken.trace.join("\n");
    assert!(!trace.contains(" { ") && !trace.contains("Some("), "a value is shown in its debug form: {broken}");
    let longest = broken.trace.iter().map(|line| line.chars().count()).max();
    assert!(longest < Some(1_000), "{longest:?}");
    assert!(trace.contains("pool:again:main: events pushed: 1 for 1 min -> events "), "{broken}");
    assert!(trace.contains("job executed; task scheduled; "), "{broken}");
}
