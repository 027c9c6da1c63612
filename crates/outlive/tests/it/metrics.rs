//! Metrics: what is measured, with which labels, units and descriptions.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outlive::job::{WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

async fn pay(ctx: Ctx, fails: bool) -> Result<u32> {
    ctx.step("charge", || async { outlive::Ok(()) }).key("card 1").await?;
    ctx.step("charge", || async { outlive::Ok(()) }).key("card 2").await?;
    ctx.sleep("1 hour").await?;
    let call = || async { if fails { Err(BoxError::from("no")) } else { Ok(7) } };
    Ok(ctx.step("call", call).retry(Retry::times(1)).await?)
}

async fn broken(_: Ctx, _: ()) -> Result<()> {
    panic!("a bug")
}

const MAIL: WorkerPool<bool> = WorkerPool::new("mail");

async fn send(_: WorkerPoolCtx<bool>, fails: bool) -> Result<()> {
    if fails { Err("no such address".into()) } else { Ok(()) }
}

fn setup(engine: outlive::Builder) -> outlive::Builder {
    engine.workflow("pay", pay).workflow("broken", broken).job(MAIL.concurrency(2).execute(send))
}

/// Each metric as `name{label=value}`, with the value of a counter or gauge, or the number of values of a histogram.
fn measured(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let entries = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => f64::from(u32::try_from(values.len()).unwrap()),
        };
        (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
    });
    entries.collect()
}

#[tokio::test]
async fn runs_steps_handlers_and_commits_are_measured() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let mut test = TestEngine::new(setup).await;
    let good = test.start(pay, &false).await.unwrap();
    test.start(pay, &true).id("bad").await.unwrap();
    test.start(broken, &()).await.unwrap();
    test.job(MAIL).push(&false).await.unwrap();
    test.job(MAIL).push(&true).await.unwrap();
    test.advance("1 hour").await;
    assert_eq!(good.result().await.unwrap(), 7);
    test.crash().await;
    let bad = test.get_run::<u32>("bad").await.unwrap();
    assert!(test.result(&bad).await.is_err());
    test.settle().await;
    let found = measured(&snapshotter);
    let expected = [
        ("outlive_executions_total{workflow=pay}", 3.0),
        ("outlive_replays_total{workflow=pay}", 1.0),
        ("outlive_run_duration_seconds{workflow=pay,status=completed}", 1.0),
        ("outlive_run_duration_seconds{workflow=pay,status=failed}", 1.0),
        // A restart tries it again.
        ("outlive_stuck_total{workflow=broken}", 2.0),
        ("outlive_step_duration_seconds{workflow=pay,step=charge,outcome=ok}", 4.0),
        ("outlive_step_duration_seconds{workflow=pay,step=call,outcome=ok}", 1.0),
        ("outlive_step_duration_seconds{workflow=pay,step=call,outcome=failed}", 2.0),
        ("outlive_handler_duration_seconds{job=pool:mail,handler=execute,outcome=ok}", 1.0),
        ("outlive_handler_duration_seconds{job=pool:mail,handler=execute,outcome=failed}", 1.0),
        ("outlive_pool_running_events{job=pool:mail}", 0.0),
        ("outlive_commit_queue_depth{}", 0.0),
        ("outlive_due_instances{}", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(found.get(name), Some(&value), "{name} in {found:#?}");
    }
    for name in ["outlive_commit_batch_size{}", "outlive_commit_duration_seconds{}", "outlive_wake_lateness_seconds{}"]
    {
        assert!(found.get(name).is_some_and(|count| *count > 0.0), "{name} in {found:#?}");
    }
    assert!(found.contains_key("outlive_resident_instances{}"), "{found:#?}");
}

#[tokio::test]
async fn every_metric_is_described_and_in_the_guide() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let mut test = TestEngine::new(setup).await;
    test.start(pay, &false).await.unwrap();
    test.start(broken, &()).await.unwrap();
    test.job(MAIL).push(&false).await.unwrap();
    test.settle().await;
    test.crash().await;
    test.advance("1 hour").await;
    let guide = include_str!("../../../../docs/guide/observing.md");
    let found = snapshotter.snapshot().into_vec();
    assert_eq!(found.iter().map(|(key, ..)| key.key().name()).collect::<std::collections::BTreeSet<_>>().len(), 13);
    for (key, unit, description, _) in found {
        let name = key.key().name();
        assert!(unit.is_some() && description.is_some(), "{name} is not described");
        assert!(guide.contains(&format!("| `{name}` |")), "{name} is not in the guide");
    }
}
