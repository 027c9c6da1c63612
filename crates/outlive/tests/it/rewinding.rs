//! `run.rewind(..)`: what follows a point is forgotten and runs again, what precedes it is kept.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::prelude::*;
use outlive::{Client, EntryKind, LifecycleKind, RewindPoint};
use outlive_testkit::TestEngine;

/// Counts executions, and keeps the idempotency keys that were used.
#[derive(Clone, Default)]
struct Bank {
    calls: Arc<AtomicU32>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Bank {
    async fn charge(&self, attempt: Attempt) -> Result<u32> {
        self.keys.lock().unwrap().push(attempt.idempotency_key().to_owned());
        Ok(self.calls.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

async fn three(ctx: Ctx, _: ()) -> Result<Vec<u32>> {
    let bank = ctx.get::<Bank>();
    let a = ctx.step("a", |attempt| bank.charge(attempt)).await?;
    let b = ctx.step("b", |attempt| bank.charge(attempt)).await?;
    let c = ctx.step("c", |attempt| bank.charge(attempt)).await?;
    Ok(vec![a, b, c])
}

async fn bank_engine() -> (TestEngine, Bank) {
    let bank = Bank::default();
    let provided = bank.clone();
    let test = TestEngine::new(move |engine| engine.workflow("three", three).provide(provided.clone())).await;
    (test, bank)
}

#[tokio::test]
async fn rewound_run_keeps_what_precedes_the_point_and_repeats_the_rest() {
    let (mut test, bank) = bank_engine().await;
    let run = test.start(three, &()).id("order").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [1, 2, 3]);
    let plan = run.rewind("b").await.unwrap();
    assert_eq!(
        (plan.kept_to, plan.kept, plan.runs_again),
        (1, vec!["step:a".into()], vec!["step:b".into(), "step:c".into()])
    );
    assert_eq!(test.result(&run).await.unwrap(), [1, 4, 5]);
    assert_eq!(run.completed_steps().await.unwrap(), ["a", "b", "c"]);
    test.crash().await;
    let kinds: Vec<_> = run.journal().await.unwrap().iter().map(|entry| entry.kind).collect();
    let done = EntryKind::StepDone;
    assert_eq!(kinds, [done, done, done, EntryKind::Rewound, done, done], "the history stays");
    assert_eq!(bank.calls.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn repeated_step_has_another_idempotency_key_and_a_retried_one_the_same() {
    let (test, bank) = bank_engine().await;
    let run = test.start(three, &()).id("order").await.unwrap();
    test.result(&run).await.unwrap();
    run.rewind("c").await.unwrap();
    test.result(&run).await.unwrap();
    run.rewind("c").await.unwrap();
    test.result(&run).await.unwrap();
    let keys = bank.keys.lock().unwrap().clone();
    let [.., first, second, third] = &keys[..] else { panic!("{keys:?}") };
    assert!(first.ends_with("/step:c") && second.ends_with("/step:c@4") && third.ends_with("/step:c@6"), "{keys:?}");
    // A retry continues an execution, so it keeps the key.
    test.fail_next("c", "declined");
    run.rewind("c").await.unwrap();
    assert!(test.result(&run).await.is_err());
    run.retry().await.unwrap();
    test.result(&run).await.unwrap();
    let keys = bank.keys.lock().unwrap().clone();
    assert!(keys.last().unwrap().ends_with("/step:c@8"), "{keys:?}");
}

#[tokio::test]
async fn run_can_be_rewound_to_an_entry_to_its_start_and_again_and_again() {
    let (mut test, _) = bank_engine().await;
    let run = test.start(three, &()).id("order").await.unwrap();
    test.result(&run).await.unwrap();
    run.rewind(3_u64).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [1, 2, 4]);
    run.rewind(RewindPoint::Start).await.unwrap();
    test.settle().await;
    test.crash().await;
    let run: Run<Vec<u32>> = test.get_run("order").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [5, 6, 7]);
    run.rewind("step:c").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [5, 6, 8]);
    run.rewind("a").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), [9, 10, 11]);
}

#[tokio::test]
async fn point_that_is_missing_or_ambiguous_is_refused_and_nothing_is_written() {
    async fn twice(ctx: Ctx, _: ()) -> Result<()> {
        for key in ["1", "2"] {
            ctx.step("charge", || async { outlive::Ok(()) }).key(key).await?;
        }
        Ok(ctx.step("ship", || async { outlive::Ok(()) }).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("twice", twice)).await;
    let run = test.start(twice, &()).id("order").await.unwrap();
    test.result(&run).await.unwrap();
    let before = run.journal().await.unwrap();
    let ambiguous = run.rewind("charge").await.unwrap_err();
    assert_eq!(
        ambiguous.to_string(),
        "\"charge\" is ambiguous in run \"order\"; choose one of step:charge[1], step:charge[2]"
    );
    assert_eq!(ambiguous.code(), "ambiguous_point");
    let missing = run.rewind("mail").await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "run \"order\" has not recorded \"mail\"; choose one of step:charge[1], step:charge[2], step:ship"
    );
    for entry in [0_u64, 4, u64::MAX] {
        assert_eq!(run.rewind(entry).await.unwrap_err().code(), "no_rewind_point");
    }
    assert_eq!(run.rewind("2").dry_run().await.unwrap().runs_again, ["step:charge[2]", "step:ship"]);
    assert_eq!(run.journal().await.unwrap(), before);
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    run.rewind("2").await.unwrap();
    test.result(&run).await.unwrap();
    assert_eq!(run.rewind(3_u64).await.unwrap_err().code(), "no_rewind_point", "that entry is forgotten");
    assert_eq!(test.executions("charge"), 3);
}

#[tokio::test]
async fn run_that_has_not_begun_or_is_being_executed_is_refused() {
    async fn slow(ctx: Ctx, _: ()) -> Result<()> {
        ctx.step("first", || async { outlive::Ok(()) }).await?;
        Ok(ctx.step("never", || async { std::future::pending::<Result<()>>().await }).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("slow", slow)).await;
    let later = test.start(slow, &()).delay("1 day").await.unwrap();
    let refused = later.rewind(RewindPoint::Start).await.unwrap_err();
    assert!(refused.to_string().contains("it has not begun"), "{refused}");
    let busy = test.start(slow, &()).id("busy").await.unwrap();
    test.settle().await;
    let refused = busy.rewind("first").await.unwrap_err();
    assert!(refused.to_string().contains("it is being executed; `pause` it"), "{refused}");
    assert_eq!(refused.code(), "status");
}

async fn approval(ctx: Ctx, _: ()) -> Result<(String, String)> {
    let one: String = ctx.wait("approval").await?;
    let two: String = ctx.wait("approval").await?;
    ctx.step("record", || async { outlive::Ok(()) }).await?;
    Ok((one, two))
}

#[tokio::test]
async fn signals_taken_after_the_point_are_given_back_in_their_order() {
    let mut test = TestEngine::new(|engine| engine.workflow("approval", approval)).await;
    let run = test.start(approval, &()).id("order").await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    run.signal("approval", "bob").await.unwrap();
    let expected = ("ada".to_owned(), "bob".to_owned());
    assert_eq!(test.result(&run).await.unwrap(), expected);
    let plan = run.rewind(RewindPoint::Start).await.unwrap();
    assert_eq!(plan.signals, ["approval", "approval"]);
    assert_eq!(test.result(&run).await.unwrap(), expected);
    test.crash().await;
    let run: Run<(String, String)> = test.get_run("order").await.unwrap();
    let plan = run.rewind("wait:approval#2").await.unwrap();
    assert_eq!(plan.signals, ["approval"]);
    assert_eq!(test.result(&run).await.unwrap(), expected);
    let plan = run.rewind("record").await.unwrap();
    assert!(plan.signals.is_empty());
    assert_eq!(test.result(&run).await.unwrap(), expected);
}

#[tokio::test]
async fn signal_that_became_a_dead_letter_is_not_given_back() {
    async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
        Ok(ctx.wait("n").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("waits", waits)).await;
    let run = test.start(waits, &()).await.unwrap();
    run.signal("n", "seven").await.unwrap();
    run.signal("n", &7).await.unwrap();
    test.result(&run).await.unwrap();
    assert_eq!(run.rewind(RewindPoint::Start).await.unwrap().signals.len(), 1);
    assert_eq!(test.result(&run).await.unwrap(), 7);
    assert_eq!(run.dead_signals().await.unwrap().len(), 1, "it is refused once");
}

#[tokio::test]
async fn sleeping_run_in_memory_is_rewound_and_sleeps_again() {
    async fn naps(ctx: Ctx, _: ()) -> Result<u32> {
        let bank = ctx.get::<Bank>();
        let a = ctx.step("a", |attempt| bank.charge(attempt)).await?;
        ctx.sleep("1 hour").await?;
        Ok(a)
    }
    let bank = Bank::default();
    let test = TestEngine::new(move |engine| engine.workflow("naps", naps).provide(bank.clone())).await;
    let run = test.start(naps, &()).await.unwrap();
    test.settle().await;
    test.advance("30 minutes").await;
    run.rewind("sleep").await.unwrap();
    test.settle().await;
    test.advance("40 minutes").await;
    assert!(matches!(run.status().await.unwrap(), Status::Sleeping { .. }), "it sleeps its whole time again");
    run.rewind("a").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 2);
}

#[tokio::test]
async fn paused_stuck_and_cancelled_runs_can_be_rewound() {
    async fn panics_once(ctx: Ctx, _: ()) -> Result<u32> {
        let bank = ctx.get::<Bank>();
        let a = ctx.step("a", |attempt| bank.charge(attempt)).await?;
        assert!(a > 1, "not this time");
        ctx.wait::<()>("go").timeout("1 hour").await?;
        Ok(a)
    }
    let bank = Bank::default();
    let test = TestEngine::new(move |engine| engine.workflow("panics", panics_once).provide(bank.clone())).await;
    let run = test.start(panics_once, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap_err().is_stuck());
    run.rewind("a").await.unwrap();
    test.settle().await;
    run.pause().await.unwrap();
    test.settle().await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    run.rewind("a").await.unwrap();
    test.settle().await;
    run.cancel("no longer needed").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().is_cancelled());
    run.rewind("a").await.unwrap();
    run.signal("go", &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 4, "the cancel is forgotten");
}

#[tokio::test]
async fn passed_deadline_of_a_rewound_run_no_longer_counts() {
    let test = TestEngine::new(|engine| engine.workflow("approval", approval)).await;
    let run = test.start(approval, &()).deadline("1 hour").await.unwrap();
    run.signal("approval", "ada").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().is_cancelled());
    run.rewind("wait:approval#2").await.unwrap();
    run.signal("approval", "bob").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), ("ada".to_owned(), "bob".to_owned()));
    assert_eq!(run.info().await.unwrap().deadline, None);
}

#[tokio::test]
async fn steps_that_had_begun_before_the_point_start_over() {
    async fn races(ctx: Ctx, _: ()) -> Result<(u32, u32)> {
        let bank = ctx.get::<Bank>();
        let slow = async {
            let step = ctx.step("slow", |attempt: Attempt| async move {
                if attempt.number < 3 {
                    Err(format!("attempt {}", attempt.number).into())
                } else {
                    outlive::Ok(attempt.number)
                }
            });
            step.at_most_once().await.or(ctx.step("other", || async { outlive::Ok(9) }).await)
        };
        let quick = async { ctx.step("quick", |attempt| bank.charge(attempt)).await };
        let (slow, quick) = tokio::join!(slow, quick);
        Ok((slow?, quick?))
    }
    let bank = Bank::default();
    let test = TestEngine::new(move |engine| engine.workflow("races", races).provide(bank.clone())).await;
    let run = test.start(races, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (9, 1));
    let plan = run.rewind("quick").await.unwrap();
    assert!(plan.runs_again.contains(&"step:quick".to_owned()), "{plan}");
    assert_eq!(test.result(&run).await.unwrap(), (9, 2), "no step counts as interrupted");
}

#[tokio::test]
async fn waiting_run_of_another_process_is_rewound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let bank = Bank::default();
    async fn waits(ctx: Ctx, _: ()) -> Result<u32> {
        let bank = ctx.get::<Bank>();
        let a = ctx.step("a", |attempt| bank.charge(attempt)).await?;
        ctx.wait::<()>("go").await?;
        Ok(a)
    }
    let engine = Engine::open(&path).workflow("waits", waits).provide(bank.clone()).start().await.unwrap();
    let run = engine.start(waits, &()).id("order").await.unwrap();
    let is_waiting = async || {
        while !matches!(run.status().await.unwrap(), Status::Waiting { .. }) {
            tokio::task::yield_now().await;
        }
    };
    is_waiting().await;
    // A store handle of its own, as another process has.
    let store = Arc::new(outlive_sqlite::SqliteStore::open(&path, outlive_sqlite::Options::default()).unwrap());
    let outside = Client::with_store(store);
    let seen: Run<u32> = outside.get_run("order").await.unwrap();
    for times in 2..5 {
        seen.rewind("a").await.unwrap();
        while bank.calls.load(Ordering::Relaxed) < times {
            tokio::task::yield_now().await;
        }
        is_waiting().await;
    }
    seen.signal("go", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 4);
    engine.shutdown().await.unwrap();
}

async fn child(ctx: Ctx, n: u32) -> Result<u32> {
    let bank = ctx.get::<Bank>();
    ctx.step("work", |attempt| bank.charge(attempt)).await?;
    ctx.sleep("1 hour").await?;
    Ok(n)
}

async fn parent(ctx: Ctx, _: ()) -> Result<u32> {
    let one = ctx.run(child, &1).await?;
    let two = ctx.run(child, &2).id("given").await?;
    ctx.step("after", || async { outlive::Ok(()) }).await?;
    Ok(one + two)
}

#[tokio::test]
async fn forgotten_children_are_started_again_under_other_ids_and_kept_ones_are_joined() {
    let bank = Bank::default();
    let provided = bank.clone();
    let setup = move |engine: outlive::Builder| {
        engine.workflow("parent", parent).workflow("child", child).provide(provided.clone())
    };
    let mut test = TestEngine::new(setup).await;
    let run = test.start(parent, &()).id("p").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 3);
    let ids = async |test: &TestEngine| -> Vec<String> {
        test.list(Filter::runs())
            .await
            .unwrap()
            .runs
            .into_iter()
            .map(|run| format!("{}: {}", run.id, run.status))
            .collect()
    };
    // The end of the child is forgotten, its start is not.
    let end = run.journal().await.unwrap().iter().find(|entry| entry.kind == EntryKind::ChildEnded).unwrap().seq;
    let plan = run.rewind(end).await.unwrap();
    assert_eq!((plan.children_kept, plan.children_forgotten), (vec!["p/child".to_owned()], vec!["given".to_owned()]));
    assert_eq!(test.result(&run).await.unwrap(), 3);
    assert_eq!(bank.calls.load(Ordering::Relaxed), 3);
    assert_eq!(ids(&test).await, ["given@6: completed", "given: completed", "p/child: completed", "p: completed"]);
    test.crash().await;
    let run: Run<u32> = test.get_run("p").await.unwrap();
    run.rewind(RewindPoint::Start).await.unwrap();
    test.settle().await;
    // The child that runs now is forgotten again, so it is cancelled.
    run.rewind(RewindPoint::Start).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 3);
    let found = ids(&test).await;
    assert!(found.contains(&"p/child@11: cancelled".to_owned()), "{found:?}");
    assert!(found.iter().any(|one| one.starts_with("p/child@13: completed")), "{found:?}");
}

#[tokio::test]
async fn rewind_is_reported_as_a_lifecycle_event() {
    let (test, _) = bank_engine().await;
    let run = test.start(three, &()).await.unwrap();
    test.result(&run).await.unwrap();
    let mut events = test.events().await.unwrap();
    run.rewind("c").await.unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(event.kind, LifecycleKind::RunRewound { kept_to: 2, operation: Some("step:c".to_owned()) });
    assert_eq!(events.next().await.unwrap().kind, LifecycleKind::RunQueued);
}
