//! Foreign futures: caught in the workflow body, fine inside steps, and no false alarms.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all, try_join_all};
use futures_util::stream::{self, FuturesOrdered, FuturesUnordered, StreamExt};
use outlive::prelude::*;
use outlive_testkit::TestEngine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc, oneshot};

// Tokio's clock is paused in these tests: its timers fire as soon as every task is idle.

const MOMENT: Duration = Duration::from_millis(2);

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn no_value() -> Result<u64> {
    Err("no".into())
}

async fn never() -> Result<()> {
    std::future::pending().await
}

/// A step body that waits for Tokio timers, channels and tasks.
async fn outside(n: u64) -> Result<u64> {
    tokio::time::sleep(MOMENT).await;
    let (sender, mut receiver) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        tokio::task::yield_now().await;
        sender.send(n).await
    });
    let received = receiver.recv().await.ok_or("nothing came")?;
    task.await??;
    Ok(received)
}

async fn engine<F, Fut, O>(workflow: F, is_paranoid: bool) -> TestEngine
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    let setup = move |engine: outlive::Builder| engine.workflow("w", workflow.clone());
    TestEngine::new(setup).paranoid(is_paranoid).patience(Duration::from_secs(1)).await
}

async fn begin<O: DeserializeOwned + Send + 'static>(test: &TestEngine) -> Run<O> {
    let run = test.start(Workflow::<(), O>::new("w"), &()).id("r").await.unwrap();
    test.settle().await;
    run
}

/// Crashes the process and settles the next one.
async fn restart(test: &mut TestEngine) {
    test.crash().await;
    test.settle().await;
}

/// Crashes the process and settles one with other code.
async fn deploy(test: &mut TestEngine, setup: impl Fn(outlive::Builder) -> outlive::Builder + Send + Sync + 'static) {
    test.deploy(setup).await;
    test.settle().await;
}

/// Returns why the run is stuck, which is the same in tests and in production.
async fn caught<F, Fut>(workflow: F) -> String
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let mut sentences = Vec::new();
    for is_paranoid in [true, false] {
        let test = engine(workflow.clone(), is_paranoid).await;
        let run = begin::<()>(&test).await;
        tokio::time::sleep(10 * MOMENT).await;
        test.settle().await;
        let info = run.info().await.unwrap();
        assert_eq!(info.status, Status::Stuck);
        sentences.push(info.note.unwrap());
    }
    assert_eq!(sentences[0], sentences[1]);
    sentences.remove(0)
}

fn assert_names(sentence: &str, operation: &str) {
    let way_out = sentence.contains("inside a step") && sentence.contains("`ctx.sleep`");
    assert!(way_out && sentence.contains(operation) && sentence.contains("tests/it/foreign.rs:"), "{sentence}");
}

/// Returns the result of a workflow without foreign futures, which is the same with and without a crash.
async fn undisturbed<F, Fut, O>(workflow: F) -> O
where
    F: Fn(Ctx, ()) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    O: Serialize + DeserializeOwned + Send + PartialEq + std::fmt::Debug + 'static,
{
    let production = engine(workflow.clone(), false).await;
    let run = begin::<O>(&production).await;
    let value = production.result(&run).await.unwrap();
    let mut test = engine(workflow, true).await;
    begin::<O>(&test).await;
    restart(&mut test).await;
    let run: Run<O> = test.get_run("r").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), value);
    value
}

// ---- caught ----

#[tokio::test(start_paused = true)]
async fn tokio_timer_in_the_workflow_body_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", || ok(1)).await?;
        tokio::time::sleep(MOMENT).await;
        Ok(())
    });
    assert_names(&sentence.await, "step:charge");
}

#[tokio::test(start_paused = true)]
async fn channel_in_the_workflow_body_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", || ok(1)).await?;
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            sender.send(1).await
        });
        receiver.recv().await;
        Ok(())
    });
    assert_names(&sentence.await, "step:charge");
}

#[tokio::test(start_paused = true)]
async fn spawned_task_in_the_workflow_body_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        ctx.step("charge", || ok(1)).await?;
        tokio::spawn(async { 1 }).await?;
        Ok(())
    });
    assert_names(&sentence.await, "step:charge");
}

#[tokio::test(start_paused = true)]
async fn only_the_last_awaited_operation_is_named() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        ctx.step("reserve", || ok(1)).await?;
        ctx.sleep(0).await?;
        ctx.step("charge", || ok(1)).await?;
        tokio::time::sleep(MOMENT).await;
        Ok(())
    });
    let sentence = sentence.await;
    assert_names(&sentence, "step:charge");
    assert!(!sentence.contains("reserve"), "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn foreign_future_before_the_first_operation_is_caught() {
    let sentence = caught(|_: Ctx, (): ()| async move {
        tokio::time::sleep(MOMENT).await;
        Ok(())
    });
    let sentence = sentence.await;
    assert!(sentence.contains("inside a step") && sentence.contains("`ctx.sleep`"), "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn foreign_future_that_races_a_durable_one_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        tokio::select! {
            done = ctx.sleep("1 hour") => Ok(done?),
            () = tokio::time::sleep(MOMENT) => Ok(()),
        }
    });
    assert_names(&sentence.await, "sleep");
}

#[tokio::test(start_paused = true)]
async fn tokio_timeout_around_a_durable_operation_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        let answer = tokio::time::timeout(MOMENT, ctx.wait::<u32>("answer")).await;
        assert!(answer.is_err());
        Ok(())
    });
    assert_names(&sentence.await, "wait:answer");
}

#[tokio::test(start_paused = true)]
async fn foreign_future_joined_with_a_running_step_is_caught() {
    let sentence = caught(|ctx: Ctx, (): ()| async move {
        let work = ctx.step("work", never);
        let (done, ()) = tokio::join!(work, tokio::time::sleep(MOMENT));
        Ok(done?)
    });
    assert_names(&sentence.await, "step:work");
}

#[tokio::test(start_paused = true)]
async fn run_stuck_on_a_foreign_future_resumes_with_fixed_code() {
    let mut test = engine(
        |ctx: Ctx, (): ()| async move {
            ctx.step("charge", || ok(1)).await?;
            tokio::time::sleep(MOMENT).await;
            Ok(0)
        },
        true,
    )
    .await;
    let run = begin::<u64>(&test).await;
    tokio::time::sleep(10 * MOMENT).await;
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
    let fixed = |ctx: Ctx, (): ()| async move {
        let charged: u64 = ctx.step("charge", || ok(1)).await?;
        ctx.sleep("1 hour").await?;
        Ok::<_, BoxError>(charged)
    };
    deploy(&mut test, move |engine| engine.workflow("w", fixed)).await;
    let run: Run<u64> = test.get_run("r").await.unwrap();
    assert_eq!((test.result(&run).await.unwrap(), test.executions("charge")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn run_stuck_on_a_foreign_future_does_not_hold_up_others() {
    let foreign = |_: Ctx, (): ()| async move {
        tokio::time::sleep(MOMENT).await;
        Ok::<_, BoxError>(())
    };
    let fine = |ctx: Ctx, n: u64| async move {
        let value = ctx.step("outside", || outside(n)).await?;
        ctx.sleep("1 hour").await?;
        Ok::<_, BoxError>(value)
    };
    let test = TestEngine::new(move |engine| engine.workflow("foreign", foreign).workflow("fine", fine)).await;
    let caught = test.start(foreign, &()).await.unwrap();
    let runs = join_all((0..10).map(|n| test.start(fine, &n))).await;
    for (n, run) in runs.into_iter().enumerate() {
        assert_eq!(test.result(&run.unwrap()).await.unwrap(), n as u64);
    }
    assert_eq!(caught.status().await.unwrap(), Status::Stuck);
}

// ---- no false alarm ----

#[tokio::test(start_paused = true)]
async fn steps_that_wait_for_timers_channels_and_tasks_raise_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let first = ctx.step("first", || outside(1)).await?;
        let second = ctx.step("second", || outside(2)).timeout("1 minute").retry(3).await?;
        let third = ctx.step("third", no_value).fallback(|_| outside(3)).await?;
        let fourth = ctx.step("fourth", || outside(4)).at_most_once().await;
        Ok((first, second, third, fourth.is_ok() || fourth.is_err()))
    });
    assert_eq!(value.await, (1, 2, 3, true));
}

#[tokio::test(start_paused = true)]
async fn join_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let sleep = ctx.sleep("1 hour");
        let (one, two, ()) = tokio::try_join!(ctx.step("1", || outside(1)), ctx.step("2", || outside(2)), sleep)?;
        Ok((one, two))
    });
    assert_eq!(value.await, (1, 2));
}

#[tokio::test(start_paused = true)]
async fn select_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        tokio::select! {
            one = ctx.step("1", || outside(1)) => Ok(one?),
            slept = ctx.sleep("1 hour") => slept.map(|()| 2).map_err(Into::into),
            never = std::future::pending() => never,
        }
    });
    assert_eq!(value.await, 1);
}

#[tokio::test(start_paused = true)]
async fn join_all_of_forty_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let steps = (0..40).map(|n| ctx.step("work", move || outside(n)).key(n));
        Ok(try_join_all(steps).await?.into_iter().sum::<u64>())
    });
    assert_eq!(value.await, 780);
}

#[tokio::test(start_paused = true)]
async fn futures_unordered_with_a_step_per_result_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let mut running: FuturesUnordered<_> = (0..8).map(|n| ctx.step("work", move || outside(n)).key(n)).collect();
        let mut all = BTreeMap::new();
        while let Some(done) = running.next().await {
            let done = done?;
            all.insert(done, ctx.step("after", || outside(done * 10)).key(done).await?);
        }
        Ok(all)
    });
    assert_eq!(value.await, (0..8).map(|n| (n, n * 10)).collect());
}

#[tokio::test(start_paused = true)]
async fn futures_ordered_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let running: FuturesOrdered<_> = (0..8).map(|n| ctx.step("work", move || outside(n)).key(n)).collect();
        Ok(running.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<u64>, _>>()?)
    });
    assert_eq!(value.await, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn buffer_unordered_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let steps = (0..8).map(|n| ctx.step("work", move || outside(n)).key(n)).collect::<Vec<_>>();
        let mut done = stream::iter(steps).buffer_unordered(3);
        let mut sum = 0;
        while let Some(value) = done.next().await {
            sum += value?;
        }
        Ok(sum)
    });
    assert_eq!(value.await, 28);
}

#[tokio::test(start_paused = true)]
async fn shared_operation_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let shared = ctx.step("work", || outside(1)).shared();
        let left = async { Ok::<_, Error>(shared.clone().await? + ctx.step("left", || outside(10)).await?) };
        let right = async { Ok::<_, Error>(shared.clone().await? + ctx.step("right", || outside(20)).await?) };
        Ok(tokio::try_join!(left, right)?)
    });
    assert_eq!(value.await, (11, 21));
}

#[tokio::test(start_paused = true)]
async fn branches_that_wait_for_each_other_raise_no_alarm() {
    // The run itself wakes them, in its own poll.
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let permits = Semaphore::new(2);
        let (sender, receiver) = oneshot::channel();
        let branches = (0..6).map(|n| {
            let (permits, scope) = (&permits, ctx.scope(n));
            async move {
                let _permit = permits.acquire().await?;
                scope.sleep("1 minute").await?;
                Ok::<_, BoxError>(scope.step("work", || outside(n)).await?)
            }
        });
        let send = async {
            let sum: u64 = try_join_all(branches).await?.into_iter().sum();
            sender.send(sum).map_err(|_| "the receiver was dropped")?;
            Ok::<_, BoxError>(())
        };
        let (sum, ()) = tokio::try_join!(async { Ok(receiver.await?) }, send)?;
        Ok(sum)
    });
    assert_eq!(value.await, 15);
}

#[tokio::test(start_paused = true)]
async fn map_with_a_concurrency_limit_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let branch = |scope: Ctx, n: u64| async move {
            let first = scope.step("first", || outside(n)).await?;
            scope.sleep("1 minute").await?;
            Ok::<_, BoxError>(first + scope.step("second", || outside(n)).await?)
        };
        ctx.map(0..7, |n| *n, branch).concurrency(2).await
    });
    assert_eq!(value.await, [0, 2, 4, 6, 8, 10, 12]);
}

#[tokio::test(start_paused = true)]
async fn loop_that_drops_its_wait_each_round_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let mut rounds = 0;
        while rounds < 5 {
            tokio::select! {
                answer = ctx.wait::<u32>("answer") => return Ok(answer?),
                slept = ctx.sleep("1 minute") => slept?,
            }
            rounds += 1;
        }
        Ok(rounds)
    });
    assert_eq!(value.await, 5);
}

/// A body that hands out its waker and never ends.
async fn give_waker_away(wakers: Arc<Mutex<Vec<Waker>>>) -> Result<()> {
    std::future::poll_fn(|cx| {
        wakers.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn body_woken_after_its_timeout_raises_no_alarm() {
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let given = wakers.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let wakers = wakers.clone();
        async move {
            let is_late = ctx.step("slow", || give_waker_away(wakers.clone())).timeout("1 second").await.is_err();
            ctx.sleep("1 hour").await?;
            Ok(is_late)
        }
    };
    let test = engine(workflow, true).await;
    let run = begin::<bool>(&test).await;
    test.advance("1 minute").await;
    assert!(run.status().await.unwrap().is_idle());
    let stale = std::mem::take(&mut *given.lock().unwrap());
    assert!(!stale.is_empty());
    for waker in stale {
        std::thread::spawn(move || waker.wake()).join().unwrap();
        test.settle().await;
    }
    assert!(run.status().await.unwrap().is_idle(), "{:?}", run.info().await);
    assert!(test.result(&run).await.unwrap());
}

#[tokio::test]
async fn body_on_another_thread_raises_no_alarm() {
    let value = undisturbed(|ctx: Ctx, (): ()| async move {
        let body = || async {
            let (sender, receiver) = oneshot::channel();
            std::thread::spawn(move || sender.send(7));
            let from_thread: u32 = receiver.await?;
            Ok::<_, BoxError>(from_thread + tokio::task::spawn_blocking(|| 1).await?)
        };
        Ok(ctx.step("thread", body).await?)
    });
    assert_eq!(value.await, 8);
}

// ---- not lost ----

/// It was parked as a wait with no wake: no restart, signal or fixed code resumed it.
#[tokio::test(start_paused = true)]
async fn run_that_awaits_only_a_foreign_future_is_stuck_at_once_until_fixed() {
    let charges = |ctx: Ctx| async move {
        ctx.step("charge", || ok(1)).await?;
        Ok::<_, BoxError>(ctx)
    };
    let wrong = move |ctx: Ctx, (): ()| async move {
        let ctx = charges(ctx).await?;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        ctx.step("ship", || ok(2)).await?;
        Ok(())
    };
    let mut test = engine(wrong, false).await;
    let run = begin::<()>(&test).await;
    let info = run.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck);
    assert_names(&info.note.unwrap(), "step:charge");
    let right = move |ctx: Ctx, (): ()| async move {
        let ctx = charges(ctx).await?;
        ctx.sleep("1 hour").await?;
        ctx.step("ship", || ok(2)).await?;
        Ok::<_, BoxError>(())
    };
    deploy(&mut test, move |engine| engine.workflow("w", right)).await;
    let run: Run<()> = test.get_run("r").await.unwrap();
    test.result(&run).await.unwrap();
    assert_eq!((test.executions("charge"), test.executions("ship")), (1, 1));
}

/// The waker would have woken nothing, and the run would have waited for the signal alone.
#[tokio::test(start_paused = true)]
async fn waker_held_elsewhere_is_noticed_when_the_run_leaves_memory() {
    let held: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let holders = held.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let holders = holders.clone();
        async move {
            let elsewhere = std::future::poll_fn(|cx| {
                holders.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            });
            tokio::select! {
                go = ctx.wait::<()>("go").timeout("30 days") => Ok(go?),
                () = elsewhere => Ok(()),
            }
        }
    };
    let test = engine(workflow, false).await;
    let run = begin::<()>(&test).await;
    assert!(!run.status().await.unwrap().is_ended());
    test.advance("1 minute").await;
    assert_eq!(test.resident(), 0);
    let info = run.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck, "{info:?}");
    assert!(info.note.unwrap().contains("inside a step"));
    assert!(!held.lock().unwrap().is_empty());
}

/// A `select!` without `biased;` over branches that one result makes ready cannot be replayed: tests catch it.
#[tokio::test(start_paused = true)]
async fn unbiased_select_over_branches_readied_by_one_step_is_caught_in_tests() {
    let workflow = |ctx: Ctx, (): ()| async move {
        let mut won = String::new();
        for round in 0..4 {
            let shared = ctx.step("shared", || ok(round)).map(|done| done.is_ok()).shared();
            let (a, b) = (shared.clone(), shared);
            won.push(tokio::select! { _ = a => 'a', _ = b => 'b' });
        }
        Ok(won)
    };
    let test = engine(workflow, true).await;
    let run = begin::<String>(&test).await;
    let info = run.info().await.unwrap();
    assert_eq!(info.status, Status::Stuck, "{info:?}");
    assert!(info.note.as_ref().unwrap().contains("`biased;`"), "{info:?}");
}

/// Seven branches are one more than the engine compensates for: the order is not guaranteed, and tests catch it.
#[tokio::test(start_paused = true)]
async fn join_of_seven_branches_readied_by_one_step_is_caught_in_tests() {
    let workflow = |ctx: Ctx, (): ()| async move {
        let shared = ctx.step("shared", || ok(1)).map(|done| done.is_ok()).shared();
        let order = Mutex::new(String::new());
        let one = |who: char| shared.clone().map(move |_| who).map(|who| order.lock().unwrap().push(who));
        tokio::join!(one('a'), one('b'), one('c'), one('d'), one('e'), one('f'), one('g'));
        drop(shared);
        Ok(order.into_inner().unwrap())
    };
    let test = engine(workflow, true).await;
    let run = begin::<String>(&test).await;
    assert_eq!(run.status().await.unwrap(), Status::Stuck);
}
