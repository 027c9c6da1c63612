//! Pools: the limit is kept, the order is fair, and nothing is lost or handled twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::clock::Clock as _;
use outlive::job::{DeadLetter, PoolEvent, Push, WorkerPool, WorkerPoolBuilder, WorkerPoolCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;

use crate::jobs_kit::{Book, NOTES, contents, failures, others, perform};
use crate::jobs_store::SlowQueue;

const MAIL: WorkerPool<String> = WorkerPool::new("mail");

type MailCtx = WorkerPoolCtx<String>;

/// Number of running handlers, now and at most.
#[derive(Clone, Default)]
struct Load(Arc<(AtomicUsize, AtomicUsize)>);

impl Load {
    fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

async fn act(ctx: &MailCtx, script: &str) -> Result<()> {
    perform!(ctx, script, "pause" => |_: &str| (),);
    Ok(())
}

async fn deliver(ctx: MailCtx, mail: String) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    let load = ctx.try_get::<Load>().ok().cloned();
    book.note(format!("{mail}#{}", ctx.attempt()));
    load.iter().for_each(Load::enter);
    let script = book.script(&mail);
    let script = if script.is_empty() { mail.strip_prefix("do ").unwrap_or_default().to_owned() } else { script };
    let done = act(&ctx, &script).await;
    load.iter().for_each(Load::leave);
    done
}

async fn on_dead(ctx: MailCtx, letter: DeadLetter<String>) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    book.note(format!("dead {} after {}: {}", letter.event()?, letter.attempts, letter.failure));
    act(&ctx, &book.script("dead")).await
}

fn retry(times: u32, delay: &str) -> Retry {
    Retry::times(times).constant(delay).jitter(outlive::Jitter::none())
}

async fn engine(job: impl Fn() -> WorkerPoolBuilder<String> + Send + Sync + 'static) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        others(engine).job(job().execute(deliver)).provide(given.clone()).provide(Load::default())
    })
    .await;
    (test, book)
}

async fn push(test: &TestEngine, mail: &str) {
    assert!(test.job(MAIL).push(&mail.to_owned()).await.unwrap().is_new);
    test.settle().await;
}

fn plain(mails: impl IntoIterator<Item = String>) -> Vec<Push<String>> {
    mails.into_iter().map(Push::new).collect()
}

/// Ready, running, delayed, dead.
async fn depth(test: &TestEngine) -> (u64, u64, u64, u64) {
    let status = test.job(MAIL).status().await.unwrap();
    (status.ready, status.running, status.delayed, status.dead)
}

#[tokio::test]
async fn pool_runs_as_many_handlers_as_the_limit_and_no_more() {
    let load = Load::default();
    let (book, given) = (Book::default(), load.clone());
    let noted = book.clone();
    let test = TestEngine::new(move |engine| {
        engine.job(MAIL.concurrency(3).execute(deliver)).provide(noted.clone()).provide(given.clone())
    })
    .await;
    test.job(MAIL).push_many(plain((0..10).map(|n| format!("do block {n}")))).await.unwrap();
    test.settle().await;
    assert_eq!((load.most(), depth(&test).await), (3, (7, 3, 0, 0)));
    for done in 1..=7 {
        book.gate.add_permits(1);
        test.settle().await;
        assert_eq!(depth(&test).await, (7 - done, 3, 0, 0));
    }
    book.gate.add_permits(10);
    test.job(MAIL).wait_idle().await.unwrap();
    assert_eq!((load.most(), depth(&test).await, book.take().len()), (3, (0, 0, 0, 0), 10));
}

#[tokio::test]
async fn higher_priorities_go_first_even_behind_a_long_queue() {
    let (test, book) = engine(|| MAIL.concurrency(1)).await;
    push(&test, "do block").await;
    let mails = [("low", -5), ("none", 0), ("high", 5), ("higher", i32::MAX), ("lowest", i32::MIN)];
    for (mail, priority) in mails {
        test.job(MAIL).push(&mail.to_owned()).priority(priority).await.unwrap();
    }
    test.settle().await;
    book.gate.add_permits(1);
    test.settle().await;
    let expected = ["do block#1", "higher#1", "high#1", "none#1", "low#1", "lowest#1"];
    assert_eq!(book.take(), expected);
    push(&test, "do block").await;
    test.job(MAIL).push_many(plain((0..2_000).map(|n| n.to_string()))).await.unwrap();
    test.settle().await;
    test.job(MAIL).push(&"urgent".to_owned()).priority(1).await.unwrap();
    test.settle().await;
    book.gate.add_permits(1);
    test.settle().await;
    let order = book.take();
    let place = order.iter().position(|mail| mail == "urgent#1").unwrap();
    assert_eq!((place, order.len()), (1, 2_002), "it does not wait behind events that were read ahead");
}

#[tokio::test]
async fn many_events_of_one_lane_do_not_hold_up_another() {
    let (test, book) = engine(|| MAIL.concurrency(1)).await;
    let of = |key: &str, n: usize| Push::new(format!("{key}{n}")).lane(key);
    push(&test, "do block").await;
    test.job(MAIL).push_many((0..10_000).map(|n| of("a", n))).await.unwrap();
    test.settle().await;
    test.job(MAIL).push_many((0..3).map(|n| of("b", n))).await.unwrap();
    test.settle().await;
    book.gate.add_permits(1);
    test.job(MAIL).wait_idle().await.unwrap();
    let order = book.take();
    let places: Vec<usize> =
        ["b0#1", "b1#1", "b2#1"].iter().map(|mail| order.iter().position(|other| other == mail).unwrap()).collect();
    assert!(places.iter().all(|place| *place <= 8), "{places:?}");
    assert_eq!(order.len(), 10_004);
    let of_a: Vec<&String> = order.iter().filter(|mail| mail.starts_with('a')).collect();
    let expected: Vec<String> = (0..10_000).map(|n| format!("a{n}#1")).collect();
    assert!(of_a.iter().zip(&expected).all(|(one, other)| *one == other), "events of one lane keep their order");
}

#[tokio::test]
async fn event_waits_for_its_delay_or_its_time() {
    let (mut test, book) = engine(|| MAIL.concurrency(2)).await;
    let mail = test.job(MAIL);
    mail.push(&"later".to_owned()).delay("1 hour").await.unwrap();
    let at = outlive::clock::Clock::now(test.clock()).after(Duration::from_secs(7_200));
    mail.push(&"latest".to_owned()).at(at).await.unwrap();
    test.settle().await;
    assert_eq!(depth(&test).await, (0, 0, 2, 0));
    for _ in 0..59 {
        test.advance("1 minute").await;
        test.crash().await;
        test.settle().await;
    }
    assert!(book.notes().is_empty());
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["later#1"]);
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["latest#1"]);
}

#[tokio::test]
async fn dedup_key_is_in_the_queue_once_and_free_after_it() {
    let (test, book) = engine(|| MAIL.concurrency(1).retry(retry(1, "1 minute"))).await;
    let once = |mail: &str| Push::new(mail.to_owned()).dedup_key("k");
    let mail = test.job(MAIL);
    assert!(mail.push(&"do block".to_owned()).dedup_key("k").await.unwrap().is_new);
    let second = mail.push(&"second".to_owned()).dedup_key("k").await.unwrap();
    assert_eq!((second.is_new, second.event), (false, 0));
    test.settle().await;
    assert!(!mail.push(&"third".to_owned()).dedup_key("k").await.unwrap().is_new, "while it is being handled");
    let both = mail.push_many([once("fourth"), Push::new("fifth".to_owned())]).await.unwrap();
    assert_eq!((both[0].is_new, both[1].is_new), (false, true));
    book.gate.add_permits(1);
    test.settle().await;
    assert!(mail.push(&"do fail no".to_owned()).dedup_key("k").await.unwrap().is_new);
    test.settle().await;
    assert!(!mail.push(&"sixth".to_owned()).dedup_key("k").await.unwrap().is_new, "while it is retried");
    test.advance("1 minute").await;
    assert!(mail.push(&"seventh".to_owned()).dedup_key("k").await.unwrap().is_new, "it was given up");
    test.settle().await;
    assert_eq!(book.take(), ["do block#1", "fifth#1", "do fail no#1", "do fail no#2", "seventh#1"]);
}

#[tokio::test]
async fn each_event_is_retried_by_itself_and_ends_as_a_dead_letter() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let notes = given.clone();
        let job = MAIL.concurrency(2).retry(retry(2, "1 minute")).on_dead(on_dead);
        let job = job.on_exhausted(move |info| notes.note(format!("exhausted {}: {}", info.attempts, info.last)));
        others(engine).job(job.execute(deliver)).provide(given.clone())
    })
    .await;
    book.plan("bad", ["fail one", "fail two", "fail three"]);
    book.plan("late", ["fail no", "pause"]);
    test.job(MAIL).push_many(plain(["bad", "good", "late"].map(str::to_owned))).await.unwrap();
    test.settle().await;
    assert_eq!(depth(&test).await, (0, 0, 2, 0));
    test.advance("10 minutes").await;
    let mut notes = book.take();
    notes.sort();
    assert_eq!(
        notes,
        ["bad#1", "bad#2", "bad#3", "dead bad after 3: three", "exhausted 3: three", "good#1", "late#1", "late#2"]
    );
    let dead = test.job(MAIL).dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].event().unwrap().as_str(), dead[0].attempts), (1, "bad", 3));
    assert_eq!(dead[0].failure.to_string(), "three");
    let of_bad: Vec<String> =
        failures(&test, "pool:mail:main").await.into_iter().filter(|line| !line.ends_with(": no")).collect();
    assert_eq!(of_bad, ["failed 1: one", "failed 2: two", "failed 3: three", "exhausted 3 by max attempts: three"]);
    test.job(MAIL).retry_dead().only(dead[0].number).await.unwrap();
    test.settle().await;
    assert_eq!((book.take(), depth(&test).await), (vec!["bad#1".to_owned()], (0, 0, 0, 0)));
    let none = test.job(MAIL).retry_dead().only(dead[0].number).await.unwrap_err();
    assert!(matches!(none, Error::NoDeadLetter { .. }) && none.is_not_found(), "{none:?}");
    let named = format!("job \"pool:mail\" has no dead letter {};", dead[0].number);
    assert!(none.to_string().starts_with(&named), "the error names a job, not a run: {none}");
}

#[tokio::test]
async fn dead_letters_are_retried_or_discarded_all_at_once() {
    let (test, book) = engine(|| MAIL.concurrency(4)).await;
    test.job(MAIL).push_many(plain((0..2_500).map(|n| format!("do fail {n}")))).await.unwrap();
    test.job(MAIL).wait_idle().await.unwrap();
    assert_eq!((book.take().len(), depth(&test).await), (2_500, (0, 0, 0, 2_500)));
    let retried = tokio::time::timeout(Duration::from_secs(120), test.job(MAIL).retry_dead()).await;
    assert_eq!(retried.expect("the call returns").unwrap(), 2_500, "each letter once, though all fail again");
    test.job(MAIL).wait_idle().await.unwrap();
    assert_eq!((book.take().len(), depth(&test).await), (2_500, (0, 0, 0, 2_500)));
    assert_eq!(test.job(MAIL).discard_dead().await.unwrap(), 2_500);
    assert_eq!(depth(&test).await, (0, 0, 0, 0));
}

#[tokio::test]
async fn paused_pool_starts_nothing_until_it_is_resumed() {
    let (mut test, book) = engine(|| MAIL.concurrency(1)).await;
    // Also before its first event.
    test.job(MAIL).pause().wait("1 minute").await.unwrap();
    push(&test, "do block").await;
    push(&test, "second").await;
    assert!(book.take().is_empty() && test.job(MAIL).status().await.unwrap().is_paused);
    test.job(MAIL).resume().wait("1 minute").await.unwrap();
    test.settle().await;
    test.job(MAIL).pause().wait("1 minute").await.unwrap();
    assert!(test.job(MAIL).status().await.unwrap().is_paused);
    book.gate.add_permits(1);
    test.settle().await;
    push(&test, "third").await;
    assert_eq!(book.take(), ["do block#1"], "the running handler finished");
    test.crash().await;
    test.advance("1 day").await;
    assert!(book.take().is_empty(), "also after a restart");
    assert_eq!(depth(&test).await, (2, 0, 0, 0));
    let drained = test.job(MAIL).wait_idle().await;
    assert!(matches!(drained, Err(Error::Status { .. })), "{drained:?}");
    test.job(MAIL).resume().await.unwrap();
    test.job(MAIL).wait_idle().await.unwrap();
    assert_eq!((book.take().len(), test.job(MAIL).status().await.unwrap().is_paused), (2, false));
}

#[tokio::test]
async fn wait_idle_waits_for_delayed_and_retried_events() {
    let (test, book) = engine(|| MAIL.concurrency(2).retry(retry(1, "1 minute"))).await;
    let mail = test.job(MAIL);
    mail.wait_idle().await.unwrap();
    mail.push(&"later".to_owned()).delay("1 hour").await.unwrap();
    book.plan("bad", ["fail no", "fail no"]);
    push(&test, "bad").await;
    let mut drain = Box::pin(mail.wait_idle());
    for _ in 0..3 {
        test.advance("15 minutes").await;
        assert!(futures_util::FutureExt::now_or_never(drain.as_mut()).is_none());
    }
    test.advance("15 minutes").await;
    tokio::time::timeout(Duration::from_secs(120), drain).await.expect("nothing is left").unwrap();
    assert_eq!(book.take(), ["bad#1", "bad#2", "later#1"]);
}

// ---- batches ----

async fn deliver_all(ctx: MailCtx, mails: Vec<PoolEvent<String>>) -> Result<()> {
    let book = ctx.get::<Book>().clone();
    let words: Vec<String> = mails.iter().map(|mail| format!("{}#{}", mail.event, mail.attempt)).collect();
    let mut keys: Vec<&str> = mails.iter().map(|mail| mail.idempotency_key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), mails.len(), "each event has its own key");
    book.note(words.join(","));
    act(&ctx, &book.script("batch")).await
}

async fn batching(size: usize) -> (TestEngine, Book) {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let job = MAIL.concurrency(1).retry(retry(1, "1 minute"));
        others(engine).job(job.execute_batch(size, deliver_all)).provide(given.clone())
    })
    .await;
    (test, book)
}

#[tokio::test]
async fn batch_is_bounded_and_a_failed_one_is_retried() {
    let (test, book) = batching(3).await;
    book.plan("batch", ["", "fail no"]);
    test.job(MAIL).push_many(plain((1..=7).map(|n| format!("m{n}")))).await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["m1#1,m2#1,m3#1", "m4#1,m5#1,m6#1", "m7#1"]);
    assert_eq!(depth(&test).await, (0, 0, 3, 0));
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["m4#2,m5#2,m6#2"]);
    assert_eq!(depth(&test).await, (0, 0, 0, 0));
}

#[tokio::test]
async fn all_events_of_a_running_batch_count_as_running() {
    let (test, book) = batching(3).await;
    book.plan("batch", ["block"]);
    test.job(MAIL).push_many(plain((1..=5).map(|n| format!("m{n}")))).await.unwrap();
    test.settle().await;
    assert_eq!(depth(&test).await, (2, 3, 0, 0));
    book.gate.add_permits(1);
    test.job(MAIL).wait_idle().await.unwrap();
}

#[tokio::test]
async fn unreadable_event_does_not_fail_the_rest_of_its_batch() {
    const NUMBERS: WorkerPool<serde_json::Value> = WorkerPool::new("mail");
    async fn nothing(_: WorkerPoolCtx<serde_json::Value>, _: serde_json::Value) -> Result<()> {
        Ok(())
    }
    let (mut test, book) = batching(3).await;
    test.deploy(|engine| engine.job(NUMBERS.concurrency(1).execute(nothing))).await;
    let later = |value: serde_json::Value| Push::new(value).delay("1 minute");
    let events = [serde_json::json!("m1"), serde_json::json!(2), serde_json::json!("m3")];
    test.job(NUMBERS).push_many(events.map(later)).await.unwrap();
    let given = book.clone();
    test.deploy(move |engine| {
        let job = MAIL.concurrency(1).retry(retry(1, "1 minute"));
        others(engine).job(job.execute_batch(3, deliver_all)).provide(given.clone())
    })
    .await;
    test.advance("1 minute").await;
    assert_eq!(book.take().join(","), "m1#1,m3#1");
    let dead = test.job(NUMBERS).dead().await.unwrap();
    assert_eq!((dead.len(), dead[0].json.as_str()), (1, "2"));
    assert!(dead[0].failure.to_string().contains("does not read as"), "{}", dead[0].failure);
    // Reading with another type reports which letter does not decode; the others stay readable.
    let dead = test.job(MAIL).dead().await.unwrap();
    let error = dead[0].event().unwrap_err().to_string();
    assert!(error.contains(&format!("dead letter {} does not read as", dead[0].number)), "{error}");
    test.job(MAIL).discard_dead().only(dead[0].number).await.unwrap();
    assert!(matches!(test.job(MAIL).discard_dead().only(dead[0].number).await, Err(Error::NoDeadLetter { .. })));
    assert_eq!(depth(&test).await, (0, 0, 0, 0));
}

#[tokio::test]
async fn on_dead_gets_unreadable_events_and_refused_commits() {
    const NUMBERS: WorkerPool<u32> = WorkerPool::new("mail");
    async fn signal(ctx: WorkerPoolCtx<u32>, _: u32) -> Result<()> {
        Ok(ctx.signal("nobody", "go", &7_u32)?)
    }
    async fn shown(ctx: WorkerPoolCtx<u32>, letter: DeadLetter<u32>) -> Result<()> {
        let event = letter.event().map_err(|_| letter.json.to_string());
        ctx.get::<Book>().note(format!("{event:?} {}", letter.attempts));
        Ok(ctx.send(NOTES, "n", &letter.number.to_string())?)
    }
    async fn nothing(_: WorkerPoolCtx<String>, _: String) -> Result<()> {
        Ok(())
    }
    const TEXTS: WorkerPool<String> = MAIL;
    let book = Book::default();
    let given = book.clone();
    let numbers = move |engine| {
        let job = NUMBERS.concurrency(1).retry(retry(1, "1 minute")).execute(signal).on_dead(shown);
        others(engine).job(job).provide(given.clone())
    };
    let mut test = TestEngine::new(numbers.clone()).await;
    test.deploy(|engine| engine.job(TEXTS.concurrency(1).execute(nothing))).await;
    test.job(TEXTS).push(&"no number".to_owned()).delay("1 minute").await.unwrap();
    test.deploy(numbers).await;
    test.advance("1 minute").await;
    assert_eq!(book.take(), [r#"Err("\"no number\"") 1"#]);
    test.job(NUMBERS).push(&7).await.unwrap();
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["Ok(7) 2"]);
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap().len(), 2);
}

#[tokio::test]
async fn attempt_that_exceeds_its_timeout_fails_and_is_retried() {
    let (test, book) = engine(|| MAIL.concurrency(1).retry(retry(1, "1 minute")).timeout("10 seconds")).await;
    book.plan("slow", ["send n no; block", "send n yes"]);
    book.plan("never", ["block", "block"]);
    test.job(MAIL).push(&"slow".to_owned()).await.unwrap();
    test.advance("9 seconds").await;
    assert_eq!(depth(&test).await, (0, 1, 0, 0));
    test.advance("1 second").await;
    assert_eq!(depth(&test).await, (0, 0, 1, 0));
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["slow#1", "slow#2"]);
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["yes"]);
    test.job(MAIL).push(&"never".to_owned()).await.unwrap();
    test.advance("80 seconds").await;
    assert_eq!(
        failures(&test, "pool:mail:main").await[1..],
        [
            "failed 1: timed out after 10s",
            "failed 2: timed out after 10s",
            "exhausted 2 by max attempts: timed out after 10s"
        ]
    );
}

#[tokio::test]
async fn event_is_given_up_even_if_the_commit_of_on_dead_is_refused() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let job = MAIL.concurrency(1).retry(retry(2, "1 minute")).execute(deliver).on_dead(on_dead);
        others(engine).job(job).provide(given.clone())
    })
    .await;
    book.plan("dead", ["send n told; signal nobody"]);
    book.plan("bad", ["fail no", "fail no", "fail no"]);
    test.job(MAIL).push(&"bad".to_owned()).await.unwrap();
    test.advance("2 minutes").await;
    assert_eq!(book.take(), ["bad#1", "bad#2", "bad#3", "dead bad after 3: no"]);
    assert_eq!(depth(&test).await, (0, 0, 0, 1));
    assert_eq!(test.job(NOTES).state("n").await.unwrap(), None);
    test.job(MAIL).wait_idle().await.unwrap();
}

#[tokio::test]
async fn backoff_that_panics_makes_the_event_a_dead_letter() {
    let retry = || Retry::times(3).custom(|_| panic!("no delay"));
    let (test, book) = engine(move || MAIL.concurrency(1).retry(retry())).await;
    test.job(MAIL).push_many(plain(["do fail no".into(), "next".into()])).await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["do fail no#1", "next#1"]);
    assert_eq!(depth(&test).await, (0, 0, 0, 1));
}

#[tokio::test]
async fn handler_pushes_with_a_delay_a_priority_and_a_key() {
    const MORE: WorkerPool<String> = WorkerPool::new("more");
    async fn push(ctx: WorkerPoolCtx<String>, mail: String) -> Result<()> {
        ctx.push(MAIL, &format!("{mail} low"))?;
        ctx.push(MAIL, &format!("{mail} high"))?.priority(5);
        ctx.push(MAIL, &format!("{mail} late"))?.delay("1 minute");
        ctx.push(MAIL, &format!("{mail} once"))?.dedup_key("k");
        ctx.push(MAIL, &format!("{mail} again"))?.dedup_key("k");
        if mail == "bad" {
            ctx.push(MAIL, &mail)?.delay("soon");
        }
        Ok(())
    }
    let book = Book::default();
    let given = book.clone();
    let mut test = TestEngine::new(move |engine| {
        others(engine)
            .job(MORE.concurrency(1).execute(push))
            .job(MAIL.concurrency(1).execute(deliver))
            .provide(given.clone())
    })
    .await;
    test.job(MAIL).push(&"first".to_owned()).await.unwrap();
    test.job(MAIL).wait_idle().await.unwrap();
    test.job(MAIL).pause().await.unwrap();
    test.job(MORE).push(&"m".to_owned()).await.unwrap();
    test.settle().await;
    test.crash().await;
    test.job(MAIL).resume().await.unwrap();
    test.settle().await;
    assert_eq!(book.take(), ["first#1", "m high#1", "m low#1", "m once#1"]);
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["m late#1"]);
    test.job(MORE).push(&"bad".to_owned()).await.unwrap();
    test.settle().await;
    let dead = test.job(MORE).dead().await.unwrap();
    assert!(dead[0].failure.to_string().contains("soon"), "an invalid option fails the call");
    assert_eq!(book.take(), [""; 0], "nothing is pushed");
}

#[tokio::test]
async fn rate_limit_holds_even_when_more_could_run() {
    let (test, book) = engine(|| MAIL.concurrency(10).rate(3, "1 minute")).await;
    test.job(MAIL).push_many(plain((0..10).map(|n| n.to_string()))).await.unwrap();
    let mut counts = Vec::new();
    test.settle().await;
    for _ in 0..8 {
        counts.push(book.take().len());
        test.advance("30 seconds").await;
    }
    assert_eq!(counts, [3, 0, 3, 0, 3, 0, 1, 0]);
}

// ---- events pushed together, and by a handler ----

#[tokio::test]
async fn push_many_accepts_all_events_or_none() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        engine.job(MAIL.concurrency(1).execute(deliver)).max_payload(100).provide(given.clone())
    })
    .await;
    let before = contents(test.store()).await;
    let long = "x".repeat(200);
    let refused = [
        test.job(MAIL).push_many([Push::new("a".to_owned()), Push::new(long.clone())]).await,
        test.job(MAIL).push_many([Push::new("a".to_owned()), Push::new("b".to_owned()).lane("")]).await,
        test.job(MAIL).push_many([Push::new("a".to_owned()), Push::new("b".to_owned()).delay("soon")]).await,
        test.job(MAIL)
            .push_many([Push::new("a".to_owned()), Push::new("b".to_owned()).dedup_key("x".repeat(9_999))])
            .await,
    ];
    assert!(matches!(refused[0], Err(Error::PayloadTooLarge { .. })), "{:?}", refused[0]);
    assert!(matches!(refused[1], Err(Error::Name(_))), "{:?}", refused[1]);
    assert!(matches!(refused[2], Err(Error::Duration(_))), "{:?}", refused[2]);
    assert!(matches!(refused[3], Err(Error::Name(_))), "{:?}", refused[3]);
    test.settle().await;
    assert_eq!(contents(test.store()).await, before);
    assert!(test.job(MAIL).push_many(Vec::<Push<String>>::new()).await.unwrap().is_empty());
    assert_eq!(contents(test.store()).await, before);
    assert!(book.take().is_empty());
}

#[tokio::test]
async fn sends_of_a_handler_commit_with_its_event_or_not_at_all() {
    let (test, book) = engine(|| MAIL.concurrency(4).retry(retry(1, "1 minute"))).await;
    test.job(MAIL)
        .push_many(plain(
            ["do send n one", "do send n two; fail no", "do send n three; signal nobody", "plain"].map(str::to_owned),
        ))
        .await
        .unwrap();
    test.settle().await;
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["one"]);
    assert_eq!(depth(&test).await, (0, 0, 2, 0));
    test.start(crate::jobs_kit::WAITER, &()).id("nobody").await.unwrap();
    push(&test, "after").await;
    test.advance("1 minute").await;
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["one", "three"]);
    assert_eq!((depth(&test).await, book.take().len()), ((0, 0, 0, 1), 7));
    assert_eq!(test.get_run::<u32>("nobody").await.unwrap().result().await.unwrap(), 7);
}

#[tokio::test]
async fn pool_continues_after_many_refused_commits() {
    let (test, book) = engine(|| MAIL.concurrency(3)).await;
    let scripts = (0..30).map(|n| if n % 3 == 0 { format!("do signal nobody{n}") } else { format!("do send n {n}") });
    test.job(MAIL).push_many(plain(scripts)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(120), test.job(MAIL).wait_idle())
        .await
        .expect("the pool continues")
        .unwrap();
    assert_eq!((depth(&test).await, book.take().len()), ((0, 0, 0, 10), 30));
    test.settle().await;
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap().len(), 20);
}

#[tokio::test]
async fn on_dead_commits_what_it_sends_with_the_dead_letter() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        others(engine).job(MAIL.concurrency(1).on_dead(on_dead).execute(deliver)).provide(given.clone())
    })
    .await;
    book.plan("dead", ["send n one", "send n two; fail no", "panic no"]);
    for n in 0..3 {
        push(&test, &format!("do fail {n}")).await;
    }
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["one"]);
    assert_eq!(depth(&test).await, (0, 0, 0, 3), "the letter is kept whatever on_dead does");
}

// ---- nothing is lost, nothing is handled twice ----

fn counts(book: &Book) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    book.notes().into_iter().for_each(|note| *counts.entry(note).or_default() += 1);
    counts
}

#[tokio::test]
async fn crashes_in_the_middle_lose_no_event() {
    let (mut test, book) = engine(|| MAIL.concurrency(7)).await;
    test.job(MAIL).push_many(plain((0..200).map(|n| format!("do block {n}")))).await.unwrap();
    for _ in 0..10 {
        book.gate.add_permits(5);
        test.settle().await;
        test.crash().await;
    }
    book.gate.add_permits(10_000);
    test.settle().await;
    assert_eq!(depth(&test).await, (0, 0, 0, 0));
    let counts = counts(&book);
    assert_eq!(counts.len(), 200);
    let again: usize = counts.values().map(|count| count - 1).sum();
    assert!(again <= 70, "only running events are repeated: {again}");
}

#[tokio::test]
async fn every_event_is_handled_once_even_with_slow_queue_reads() {
    let store = Arc::new(SlowQueue::new(Arc::new(outlive::MemoryStore::new())));
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| engine.job(MAIL.concurrency(4).execute(deliver)).provide(given.clone()))
        .store(store)
        .await;
    for n in 0..300 {
        test.job(MAIL).push(&n.to_string()).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(120), test.job(MAIL).wait_idle())
        .await
        .expect("the pool is drained")
        .unwrap();
    let counts = counts(&book);
    assert_eq!(counts.len(), 300);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[tokio::test]
async fn events_left_at_shutdown_are_handled_by_the_next_engine() {
    let store: Arc<dyn outlive::store::Store> = Arc::new(outlive::MemoryStore::new());
    let book = Book::default();
    let open = async || {
        let job = MAIL.concurrency(2).execute(deliver);
        others(Engine::with_store(store.clone())).job(job).provide(book.clone()).start().await.unwrap()
    };
    let engine = open().await;
    engine.job(MAIL).push_many(plain((0..50).map(|n| format!("do block {n}")))).await.unwrap();
    while book.notes().len() < 2 {
        tokio::task::yield_now().await;
    }
    let (ended, ()) = tokio::join!(engine.shutdown(), async {
        tokio::task::yield_now().await;
        book.gate.add_permits(2);
    });
    ended.unwrap();
    assert_eq!(book.notes().len(), 2);
    book.gate.add_permits(100);
    let engine = open().await;
    tokio::time::timeout(Duration::from_secs(120), engine.job(MAIL).wait_idle())
        .await
        .expect("the pool continues")
        .unwrap();
    assert_eq!((counts(&book).len(), book.notes().len()), (50, 50));
}

#[tokio::test]
async fn another_process_pushes_pauses_resumes_and_drains() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let book = Book::default();
    let engine = Engine::open(&path).job(MAIL.concurrency(2).execute(deliver)).provide(book.clone());
    let engine = engine.start().await.unwrap();
    let client = Client::open(&path).unwrap();
    let mail = client.job(MAIL);
    let work = async {
        mail.push_many(plain((0..20).map(|n| n.to_string()))).await.unwrap();
        mail.wait_idle().await.unwrap();
        mail.pause().wait("1 minute").await.unwrap();
        mail.push(&"held".to_owned()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(book.notes().len(), 20);
        mail.resume().await.unwrap();
        mail.wait_idle().await.unwrap();
        assert_eq!(book.notes().len(), 21);
    };
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn event_is_retried_while_another_is_still_running() {
    let (test, book) = engine(|| MAIL.concurrency(2).retry(retry(3, "1 minute"))).await;
    push(&test, "do block").await;
    book.plan("bad", ["fail no", "fail no", "pause"]);
    push(&test, "bad").await;
    test.advance("5 minutes").await;
    assert_eq!(book.take(), ["do block#1", "bad#1", "bad#2", "bad#3"]);
    book.gate.add_permits(1);
    test.job(MAIL).wait_idle().await.unwrap();
}

/// A pool with nothing to do never left memory: once pools took all places, nothing else could be loaded.
#[tokio::test]
async fn idle_pool_makes_room_for_others() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let mail = MAIL.concurrency(2).retry(retry(1, "1 hour")).execute(deliver);
        others(engine).job(mail).provide(given.clone()).max_resident(1)
    })
    .await;
    book.plan("x", ["fail no"]);
    push(&test, "x").await;
    test.job(NOTES).send("n", &"one".to_owned()).await.unwrap();
    test.settle().await;
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["one"]);
    test.advance("1 hour").await;
    assert_eq!(book.take(), ["x#1", "x#2"]);
}

/// Only memory knows how much of the rate is used up, so the pool stays there until that no longer matters.
#[tokio::test]
async fn pool_that_makes_room_for_others_keeps_its_rate() {
    let book = Book::default();
    let given = book.clone();
    let test = TestEngine::new(move |engine| {
        let mail = MAIL.concurrency(2).rate(1, "1 minute").execute(deliver);
        others(engine).job(mail).provide(given.clone()).max_resident(1)
    })
    .await;
    push(&test, "x").await;
    test.job(NOTES).send("n", &"one".to_owned()).await.unwrap();
    push(&test, "y").await;
    assert_eq!(book.take(), ["x#1"]);
    test.advance("3 minutes").await;
    assert_eq!(book.take(), ["y#1"]);
    assert_eq!(test.job(NOTES).state("n").await.unwrap().unwrap(), ["one"]);
}

/// Setting the clock back by an hour stopped the pool for an hour.
#[tokio::test]
async fn clock_set_back_delays_a_rate_by_at_most_one_interval() {
    let (test, book) = engine(|| MAIL.concurrency(8).rate(2, "1 minute")).await;
    for mail in ["a", "b", "c", "d", "e"] {
        test.job(MAIL).push(&mail.to_owned()).await.unwrap();
    }
    test.settle().await;
    assert_eq!(book.take().len(), 2);
    test.clock().set(Timestamp::from_millis(test.clock().now().as_millis() - 3_600_000));
    test.settle().await;
    assert!(book.take().is_empty(), "the interval is not over");
    test.advance("1 minute").await;
    assert_eq!(book.take().len(), 2);
    test.advance("1 minute").await;
    assert_eq!(book.take().len(), 1);
}
