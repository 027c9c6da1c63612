//! `crash_everywhere` finds bugs in workflows, and shows the smallest schedule that triggers each.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::Jitter;
use outlive::prelude::*;
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::{Broken, CrashEverywhere, Ledger, WarningKind};

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// A bank outside the process.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<String>>>);

impl Bank {
    async fn pay(&self, key: impl Into<String>) -> Result<u32> {
        self.0.lock().unwrap().push(key.into());
        Ok(42)
    }
}

fn requests(ledger: &Ledger) -> Vec<String> {
    ledger.world::<Bank>().0.lock().unwrap().clone()
}

/// Counts payments as a bank that treats every request as new.
fn one_request(ledger: &Ledger) -> Result<(), String> {
    at_most(1, requests(ledger).len())
}

/// Counts payments as a bank that drops a second request with the same key.
fn one_payment(ledger: &Ledger) -> Result<(), String> {
    at_most(1, requests(ledger).iter().collect::<BTreeSet<_>>().len())
}

fn at_most(max: usize, payments: usize) -> Result<(), String> {
    if payments <= max { Ok(()) } else { Err(format!("{payments} payments")) }
}

async fn broken<I>(crashes: CrashEverywhere<I>) -> Broken {
    match crashes.try_run().await {
        Ok(report) => panic!("no problem was found: {report}"),
        Err(broken) => broken,
    }
}

// ---- correct workflows ----

async fn ten_steps(ctx: Ctx, _: ()) -> Result<u32> {
    let mut sum = 0;
    for n in 0..10_u32 {
        sum += ctx.step("add", || ok(n)).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn ten_steps_are_crashed_everywhere() {
    let report = crash_everywhere(ten_steps).run().await;
    assert_eq!((report.commits(), report.schedules()), (12, 224));
}

async fn order(ctx: Ctx, _: ()) -> Result<String> {
    let bank = ctx.get::<Bank>();
    ctx.step("charge", |attempt: Attempt| async move { bank.pay(attempt.idempotency_key()).await }).await?;
    let by: String = ctx.wait("approval").timeout("1 day").await?;
    ctx.sleep("1 hour").await?;
    Ok(by)
}

#[tokio::test]
async fn workflow_that_uses_its_keys_passes_without_warnings() {
    let crashes = crash_everywhere(order).world(Bank::default).signal_at("2 hours", "approval", "ada");
    let report = crashes.invariant("one payment", one_payment).deny_warnings().pairs(usize::MAX).run().await;
    let text = "crash_everywhere(order): completed with \"ada\"; 11 commits, all 22 single crashes, all 298 pairs, 347 step executions";
    assert_eq!(report.to_string(), text);
}

#[tokio::test]
async fn bounds_limit_how_many_pairs_and_triples_are_played() {
    let report = crash_everywhere(ten_steps).pairs(10).triples(30).run().await;
    let text =
        "crash_everywhere(ten_steps): completed with 45; 12 commits, all 24 single crashes, 10 of 334 pairs, 30 of ";
    assert!(report.to_string().starts_with(text), "{report}");
    assert_eq!(report.schedules(), 24 + 10 + 30);
}

// ---- broken workflows ----

async fn not_idempotent(ctx: Ctx, _: ()) -> Result<u32> {
    let bank = ctx.get::<Bank>();
    ctx.step("reserve", || ok(7)).await?;
    ctx.sleep("1 hour").await?;
    Ok(ctx.step("charge", || bank.pay("a new request each time")).retry(3).await?)
}

#[tokio::test]
async fn non_idempotent_step_is_shown_with_the_smallest_schedule() {
    let crashes = || crash_everywhere(not_idempotent).world(Bank::default).invariant("one request", one_request);
    let found = broken(crashes()).await;
    let text = r#"crash_everywhere(not_idempotent): invariant "one request": 2 payments
crashes:   before 6
reproduce: add `.only("before 6")` before `.run()`

  time  life  what
  0 s   1     commit 1: run started with null
  0 s   1     executing "reserve", attempt 1
  0 s   1     commit 2: step "reserve" done with 7
  0 s   1     commit 3: sleep set until 1 h
  0 s   1     commit 4: sleeping until 1 h
  1 h   1     … 1 h later
  1 h   1     commit 5: sleep done; running
  1 h   1     executing "charge", attempt 1
  1 h   1     CRASH before commit 6: step "charge" done with 42
  1 h   2     commit 7: run claimed
  1 h   2     executing "charge", attempt 1
  1 h   2     commit 8: step "charge" done with 42
  1 h   2     commit 9: completed with 42
"#;
    assert_eq!(found.to_string(), text);
    assert_eq!(broken(crashes().only(found.schedule())).await.to_string(), text, "it is reproducible");
    crashes().only("before 5").run().await;
}

async fn pays_outside_of_a_step(ctx: Ctx, _: ()) -> Result<()> {
    ctx.sleep("1 hour").await?;
    ctx.get::<Bank>().pay("in the workflow itself").await?;
    Ok(())
}

#[tokio::test]
async fn side_effect_outside_a_step_is_found() {
    let crashes = crash_everywhere(pays_outside_of_a_step).world(Bank::default);
    let found = broken(crashes.invariant("one request", one_request)).await;
    assert_eq!(found.problem(), "invariant \"one request\": 3 payments");
    assert_eq!(found.schedule(), "no crash", "a replay is enough");
}

static CALLS: AtomicU32 = AtomicU32::new(0);

async fn asks_a_global(ctx: Ctx, _: ()) -> Result<u32> {
    let n = CALLS.fetch_add(1, Ordering::Relaxed);
    Ok(ctx.step("work", || ok(n)).key(n).await?)
}

#[tokio::test]
async fn workflow_that_reads_global_state_is_found() {
    let found = broken(crash_everywhere(asks_a_global)).await;
    assert!(found.problem().contains("a replay of this run differs"), "{found}");
    assert_eq!(found.schedule(), "no crash");
}

/// Identifies the process, like a process id.
struct Process(u32);

async fn asks_for_its_process(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.step("first", || ok(1)).await?;
    let process = ctx.get::<Process>().0;
    Ok(ctx.step("second", || ok(process)).key(process).await?)
}

#[tokio::test]
async fn workflow_that_differs_only_in_another_process_is_found() {
    let lives = AtomicU32::new(0);
    let setup = move |engine: outlive::Builder| engine.provide(Process(lives.fetch_add(1, Ordering::Relaxed)));
    let found = broken(crash_everywhere(asks_for_its_process).setup(setup)).await;
    assert!(found.problem().starts_with("the outcome differs: completed with "), "{found}");
    assert!(found.problem().ends_with("add `.races()` if the workflow races on purpose"), "{found}");
    assert_eq!(found.schedule(), "before 1");
}

/// Memory of the process.
#[derive(Default)]
struct Memory(Mutex<Option<u32>>);

async fn shares_memory(ctx: Ctx, _: ()) -> Result<u32> {
    let memory = &ctx.get::<Memory>().0;
    let fetch = || async { Ok::<_, BoxError>(*memory.lock().unwrap().insert(42)) };
    ctx.step("fetch", fetch).await?;
    let show = || async { Ok::<_, BoxError>(memory.lock().unwrap().unwrap_or(0)) };
    Ok(ctx.step("show", show).await?)
}

#[tokio::test]
async fn steps_that_share_memory_are_found() {
    let found = broken(crash_everywhere(shares_memory).provide_with(Memory::default)).await;
    assert_eq!(
        found.problem(),
        "the outcome differs: completed with 0 with these crashes, but completed with 42 without a crash; \
         add `.races()` if the workflow races on purpose"
    );
    assert_eq!(found.schedule(), "after 2", "the value is recorded, and the memory is gone");
}

async fn bears_one_repeat(ctx: Ctx, _: ()) -> Result<u32> {
    let bank = ctx.get::<Bank>();
    let _: String = ctx.wait("go").timeout("1 minute").await.unwrap_or_default();
    Ok(ctx.step("charge", || bank.pay("again")).await?)
}

#[tokio::test]
async fn bug_that_needs_two_crashes_is_found_and_minimized() {
    let crashes = || {
        let crashes = crash_everywhere(bears_one_repeat).world(Bank::default).signal("go", "now");
        crashes.invariant("two requests at the most", |ledger| at_most(2, requests(ledger).len()))
    };
    crashes().pairs(0).run().await;
    let found = broken(crashes()).await;
    assert_eq!(found.problem(), "invariant \"two requests at the most\": 3 payments");
    assert_eq!(found.schedule(), "before 5, before 7, without message 1");
    assert_eq!(broken(crashes().only(found.schedule())).await.to_string(), found.to_string());
}

// ---- steps that run at most once ----

async fn launches_once(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("prepare", |attempt: Attempt| ok(attempt.idempotency_key().to_owned())).await?;
    match ctx.step("launch", || ok(())).at_most_once().await {
        Err(Error::Interrupted { .. }) => Ok(ctx.step("look", |attempt: Attempt| look(attempt)).await?),
        other => Ok(other.map(|()| "launched".to_owned())?),
    }
}

async fn look(attempt: Attempt) -> Result<String> {
    let _ = attempt.idempotency_key();
    Ok("go and look".to_owned())
}

/// What broke: a crash during such a step is covered by its promise, but was reported as a different outcome.
#[tokio::test]
async fn at_most_once_step_may_be_interrupted() {
    let launched = |ledger: &Ledger| at_most(1, ledger.count("launch"));
    let crashes = crash_everywhere(launches_once).invariant("launched once", launched).deny_warnings();
    let report = crashes.pairs(usize::MAX).run().await;
    assert_eq!(report.output::<String>().as_deref(), Some("launched"));
}

async fn launches_or_fails(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.step("launch", || ok(())).at_most_once().await?)
}

#[tokio::test]
async fn run_that_does_not_handle_the_interruption_is_found() {
    let found = broken(crash_everywhere(launches_or_fails)).await;
    assert!(found.problem().starts_with("the run failed with "), "{found}");
    assert!(
        found.problem().contains("but completed with null without a crash; handle `Error::Interrupted`"),
        "{found}"
    );
    let report = crash_everywhere(launches_or_fails).races().run().await;
    assert!(report.to_string().ends_with(" crashed runs failed"), "{report}");
}

async fn launches_and_forgets(ctx: Ctx, _: ()) -> Result<u32> {
    if ctx.step("launch", || ok(())).at_most_once().await.is_ok() {
        return Ok(1);
    }
    let memory = &ctx.get::<Memory>().0;
    ctx.step("fetch", || async { Ok::<_, BoxError>(*memory.lock().unwrap().insert(42)) }).await?;
    Ok(ctx.step("show", || async { Ok::<_, BoxError>(memory.lock().unwrap().unwrap_or(0)) }).await?)
}

/// After an interruption a run may take another path, but always the same one: here, a second crash changes it.
#[tokio::test]
async fn different_outcome_after_an_interruption_is_found() {
    let crashes = || crash_everywhere(launches_and_forgets).provide_with(Memory::default);
    crashes().pairs(0).run().await;
    let found = broken(crashes()).await;
    let problem =
        "the outcome differs: completed with 0 with these crashes, but completed with 42 with schedule \"after 2\"; ";
    assert!(found.problem().starts_with(problem), "{found}");
    assert_eq!(broken(crashes().only(found.schedule())).await.to_string(), found.to_string(), "it is reproducible");
}

// ---- ends of runs ----

async fn waits(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.wait("never").await?)
}

async fn hangs(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.step("hang", std::future::pending::<Result<()>>).await?)
}

async fn ticks(ctx: Ctx, _: ()) -> Result<()> {
    loop {
        ctx.sleep("1 second").await?;
    }
}

/// Handles the same error forever: no time passes, and nothing settles.
async fn loops(ctx: Ctx, _: ()) -> Result<()> {
    while ctx.step("try", || fail::<()>("not yet")).await.is_err() {}
    Ok(())
}

async fn fail<T>(message: &'static str) -> Result<T> {
    Err(message.into())
}

/// The test sends a signal with a different name.
async fn approve(ctx: Ctx, _: ()) -> Result<bool> {
    Ok(ctx.wait("approval").await?)
}

async fn sleeps_outside(ctx: Ctx, _: ()) -> Result<()> {
    ctx.step("first", || ok(())).await?;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    Ok(())
}

async fn problem<I>(crashes: CrashEverywhere<I>) -> String {
    broken(crashes).await.problem().to_owned()
}

#[tokio::test]
async fn run_that_does_not_end_is_reported_with_a_fix() {
    let found = problem(crash_everywhere(waits)).await;
    assert!(
        found.starts_with("the run does not end: it waits for \"never\" (crates/outlive-testkit/tests/it/"),
        "{found}"
    );
    assert!(found.ends_with("), which never arrives; send it with `.signal(..)`"), "{found}");
    let found = problem(crash_everywhere(hangs)).await;
    assert!(found.contains("replace its body with `.step(..)`"), "{found}");
    let found = problem(crash_everywhere(ticks)).await;
    assert!(found.contains("it was due 500 times and is due again"), "{found}");
}

/// What broke: the search ran until memory was full.
#[tokio::test]
async fn loop_without_passing_time_is_bounded() {
    let found = broken(crash_everywhere(loops)).await;
    let sentence =
        "the run does not end: it recorded 10001 entries without any time passing, the last for \"try#10001\" (";
    assert!(found.problem().starts_with(sentence), "{}", found.problem());
    assert!(found.problem().ends_with("or let time pass in it with `ctx.sleep(..)`"), "{}", found.problem());
    assert!(found.timeline().lines().count() > 20_000, "the timeline is complete");
    let printed = found.to_string();
    assert!(printed.lines().count() < 210 && printed.contains(" earlier lines\n"), "only the end is shown");
}

/// What broke: both got the advice to send a signal.
#[tokio::test]
async fn misnamed_wait_and_foreign_future_get_different_advice() {
    let found = problem(crash_everywhere(approve).signal("aproval", &true).signal("other", &1)).await;
    assert!(found.starts_with("the run does not end: it waits for \"approval\" ("), "{found}");
    let way_out =
        "which never arrives, while nothing waits for \"aproval\" and \"other\", which did; use the same name for both";
    assert!(found.ends_with(way_out), "{found}");
    let found = problem(crash_everywhere(sleeps_outside).signal("other", &1)).await;
    assert!(found.contains("a future that is not part of"), "{found}");
    assert!(found.ends_with("await timers, channels and tasks inside a step, and use `ctx.sleep` for time"), "{found}");
}

async fn fails(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.step("charge", || fail("the card is declined")).await?)
}

/// What broke: it passed, and the report did not say how the run had ended.
#[tokio::test]
async fn failure_without_a_crash_is_reported_unless_expected() {
    let found = broken(crash_everywhere(fails)).await;
    assert!(found.problem().starts_with("the run failed with "), "{found}");
    let way_out = "the card is declined\"; fix the workflow, or add `.expect_failure()` if it should fail";
    assert!(found.problem().ends_with(way_out), "{found}");
    assert_eq!(found.schedule(), "no crash");
    let report = crash_everywhere(fails).expect_failure().run().await;
    assert_eq!(report.status(), Status::Failed);
    assert!(report.failure().unwrap().to_string().contains("the card is declined"), "{report}");
    assert!(report.to_string().starts_with("crash_everywhere(fails): failed with "), "{report}");
}

#[tokio::test]
async fn completion_is_reported_if_failure_is_expected() {
    let found = problem(crash_everywhere(ten_steps).expect_failure()).await;
    assert!(found.starts_with("the run completed with 45; it was expected to fail; "), "{found}");
}

#[tokio::test]
async fn run_cancelled_by_the_test_may_end_cancelled() {
    let report = crash_everywhere(waits).cancel_at("1 hour", "enough").run().await;
    assert_eq!(report.status(), Status::Cancelled);
    assert!(report.to_string().starts_with("crash_everywhere(waits): was cancelled (enough); "), "{report}");
}

#[tokio::test]
async fn undecodable_input_is_reported() {
    async fn double(_: Ctx, n: u32) -> Result<u32> {
        Ok(n * 2)
    }
    let problem = broken(crash_everywhere(double)).await.problem().to_owned();
    assert!(problem.contains("does not read as u32"), "{problem}");
}

#[tokio::test]
#[should_panic(expected = "crash_everywhere(waits): the run does not end")]
async fn run_panics_with_the_problem() {
    crash_everywhere(waits).run().await;
}

#[tokio::test]
#[should_panic(expected = "\"soon\" in \"soon\" is not a crash")]
async fn invalid_schedule_is_refused() {
    let _ = crash_everywhere(waits).only("soon");
}

#[test]
#[should_panic(expected = "crash_everywhere needs tokio's current-thread runtime")]
fn multi_thread_runtime_is_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(crash_everywhere(ten_steps).run());
}

// ---- warnings ----

async fn four_kinds(ctx: Ctx, _: ()) -> Result<()> {
    let asks = |attempt: Attempt| async move { ok(attempt.idempotency_key().to_owned()).await };
    let does_not_ask = |attempt: Attempt| async move { ok(attempt.number).await };
    ctx.step("asks", asks).await?;
    ctx.step("does not ask", does_not_ask).await?;
    ctx.step("takes nothing", || ok(())).await?;
    ctx.step("only reads", || ok(())).await?;
    ctx.step("once", || ok(())).at_most_once().await.or_else(|error| match error {
        Error::Interrupted { .. } => Ok(()),
        error => Err(error),
    })?;
    Ok(())
}

#[tokio::test]
async fn repeated_steps_that_never_read_their_key_are_reported() {
    let crashes = || crash_everywhere(four_kinds).races().idempotent("only reads").pairs(0);
    let report = crashes().run().await;
    let told: Vec<_> = report.warnings().iter().map(|warning| (warning.step.as_str(), warning.times)).collect();
    assert_eq!(told, [("does not ask", 2), ("takes nothing", 2)]);
    let warning = report.warnings()[1].to_string();
    assert!(warning.starts_with("step \"takes nothing\" (crates/outlive-testkit/tests/it/crashes.rs:"), "{warning}");
    assert!(warning.contains(") ran 2 times (before 4) and never read its idempotency key; pass"), "{warning}");
    let found = broken(crashes().deny_warnings()).await;
    assert!(found.problem().starts_with("warnings are denied: step \"does not ask\""), "{found}");
    assert_eq!(found.schedule(), "before 3");
}

async fn pays_all(ctx: Ctx, bills: HashMap<String, u32>) -> Result<()> {
    for (_, cents) in bills {
        ctx.step("pay", |attempt: Attempt| paid(cents, attempt)).await?;
    }
    ctx.scope("a").step("pay", |attempt: Attempt| paid(0, attempt)).await?;
    Ok(())
}

async fn paid(cents: u32, attempt: Attempt) -> Result<u32> {
    let _ = attempt.idempotency_key();
    Ok(cents)
}

async fn pays_all_by_key(ctx: Ctx, bills: HashMap<String, u32>) -> Result<()> {
    for (to, cents) in bills {
        ctx.step("pay", |attempt: Attempt| paid(cents, attempt)).key(to).await?;
    }
    Ok(())
}

/// A replay matches calls by order, and may give one bill's record to another: no outcome shows it here.
#[tokio::test]
async fn steps_distinguished_only_by_order_are_reported() {
    let bills: HashMap<_, _> = ["a", "b", "c"].into_iter().zip([1, 2, 3]).map(|(to, n)| (to.to_owned(), n)).collect();
    let report = crash_everywhere(pays_all).input(&bills).pairs(0).run().await;
    let [warning] = report.warnings() else { panic!("{report}") };
    assert_eq!((warning.kind, warning.step.as_str(), warning.times), (WarningKind::Unkeyed, "pay", 3));
    let text = warning.to_string();
    assert!(text.starts_with("step \"pay\" (crates/outlive-testkit/tests/it/crashes.rs:"), "{text}");
    let way_out = "give each a `.key(..)` if the order can change, as with a `HashMap`, or add `.ordered(\"pay\")`";
    assert!(text.ends_with(way_out), "{text}");
    crash_everywhere(pays_all).input(&bills).pairs(0).ordered("pay").deny_warnings().run().await;
    assert!(crash_everywhere(pays_all_by_key).input(&bills).pairs(0).run().await.warnings().is_empty());
}

async fn pays_in_another_order(ctx: Ctx, _: ()) -> Result<u32> {
    let bills = if ctx.get::<Process>().0.is_multiple_of(2) { [1, 20] } else { [20, 1] };
    let mut sum = 0;
    for cents in bills {
        sum += ctx.step("pay", |attempt: Attempt| paid(cents, attempt)).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn outcome_that_depends_on_order_names_the_step() {
    let lives = AtomicU32::new(0);
    let crashes = crash_everywhere(pays_in_another_order);
    let found = problem(crashes.provide_with(move || Process(lives.fetch_add(1, Ordering::Relaxed)))).await;
    assert!(found.starts_with("the outcome differs: completed with "), "{found}");
    assert!(found.contains("; possibly related: step \"pay\" (crates/outlive-testkit/tests/it/crashes.rs:"), "{found}");
}

#[tokio::test]
async fn faked_step_whose_body_may_use_its_key_gets_no_warning() {
    let fakes = || crash_everywhere(four_kinds).races().step("does not ask", |call| ok_now(call.attempt));
    let report = fakes().step("takes nothing", |_| ok_now(())).pairs(0).run().await;
    let told: Vec<_> = report.warnings().iter().map(|warning| warning.step.as_str()).collect();
    assert_eq!(told, ["takes nothing", "only reads"], "a body without an argument cannot know its key");
}

fn ok_now<T>(value: T) -> Result<T> {
    Ok(value)
}

// ---- the ledger ----

async fn retried(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx
        .scope("shop")
        .step("charge", || ok(0))
        .key("a")
        .retry(Retry::times(2).constant("1 min").jitter(Jitter::none()))
        .await?)
}

#[tokio::test]
async fn ledger_has_every_attempt_with_its_life_and_time() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let note = move |ledger: &Ledger| {
        let line = |effect: &outlive_testkit::crashes::Effect| {
            let key = effect.key.as_deref().unwrap_or("none");
            let outlive_testkit::crashes::Effect { step, op, attempt, idempotency_key, life, after, .. } = effect;
            format!("{step} {key} {op} {attempt} {idempotency_key} life {life} after {after:?}")
        };
        assert_eq!((ledger.status(), ledger.output::<u32>()), (Status::Completed, Some(7)));
        *notes.lock().unwrap() = ledger.effects().iter().map(line).collect();
        Ok(())
    };
    let charge = |call: &outlive::StepCall<'_>| if call.attempt == 1 { Err("not yet") } else { Ok(7) };
    crash_everywhere(retried).step("charge", charge).invariant("noted", note).only("before 5").run().await;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "charge a shop/step:charge[a] 1 run/1/shop/step:charge[a] life 1 after 0ns",
            "charge a shop/step:charge[a] 2 run/1/shop/step:charge[a] life 1 after 60s",
            "charge a shop/step:charge[a] 2 run/1/shop/step:charge[a] life 2 after 60s",
        ]
    );
}
