//! Values with odd serde implementations, everywhere a job takes one: state, event, reply, batch, dead letter, input
//! and output.

use std::sync::Arc;

use outlive::clock::Clock as _;
use outlive::job::{
    Continuous, ContinuousCtx, Debounce, DebounceCtx, JobStatus, PoolEvent, Push, Task, TaskCtx, WorkerPool,
    WorkerPoolCtx,
};
use outlive::prelude::*;
use outlive_core::event::Event;
use outlive_core::id::Name;
use outlive_core::payload::Payload;
use outlive_core::queue::PushTarget;
use outlive_core::store::commit::Write;
use outlive_testkit::TestEngine;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::jobs_kit::{Book, contents};

/// A value, named for what is special about its JSON.
#[derive(Clone, PartialEq, Debug)]
enum Odd {
    Fine,
    /// Serializes as `null`, and deserializes from it.
    Null,
    /// Serializes, but does not deserialize.
    NoWayBack,
    PanicsWritten,
    PanicsRead,
    TooLarge,
}

const GOOD: [Odd; 2] = [Odd::Fine, Odd::Null];
const BAD: [Odd; 4] = [Odd::NoWayBack, Odd::PanicsWritten, Odd::PanicsRead, Odd::TooLarge];
const BYTES_MAX: usize = 4_096;

impl Serialize for Odd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fine => serializer.serialize_str("fine"),
            Self::Null => serializer.serialize_none(),
            Self::NoWayBack => serializer.serialize_f64(7.5),
            Self::PanicsWritten => panic!("this is not written"),
            Self::PanicsRead => serializer.serialize_str("do not read"),
            Self::TooLarge => serializer.serialize_str(&"x".repeat(BYTES_MAX)),
        }
    }
}

impl<'de> Deserialize<'de> for Odd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            None => Ok(Self::Null),
            Some("fine") => Ok(Self::Fine),
            Some("do not read") => panic!("this is not read"),
            Some(text) if text.len() == BYTES_MAX => Ok(Self::TooLarge),
            Some(_) => Err(D::Error::custom("no such value")),
        }
    }
}

/// What a handler does with a value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Do {
    /// Keep the value at this position in the list of all values.
    Keep(usize),
    Answer(usize),
    Nothing,
}

fn odd(place: usize) -> Odd {
    GOOD.into_iter().chain(BAD).nth(place).unwrap()
}

const TASK: Task<Do, Odd> = Task::new("task");
const PLAIN: Task<Odd, u32> = Task::new("plain");
const HOOKS: Debounce<Do, Odd> = Debounce::new("hooks");
const LATEST: Debounce<Odd, Odd> = Debounce::new("latest");
const BEAT: Continuous<Odd> = Continuous::new("beat");
const MAIL: WorkerPool<Odd> = WorkerPool::new("mail");
const MANY: WorkerPool<Odd> = WorkerPool::new("many");

async fn on_event(ctx: TaskCtx<Do, Odd>, what: Do) -> Result<Odd> {
    match what {
        Do::Keep(place) => ctx.set_state(odd(place)),
        Do::Answer(place) => return Ok(odd(place)),
        Do::Nothing => {}
    }
    Ok(Odd::Fine)
}

async fn plain(ctx: TaskCtx<Odd, u32>, _: Odd) -> Result<()> {
    ctx.update_state(|count| *count += 1);
    Ok(())
}

async fn collect(ctx: DebounceCtx<Do, Odd>, what: Do) -> Result<()> {
    if let Do::Keep(place) = what {
        ctx.set_state(odd(place));
    }
    Ok(())
}

async fn flush(ctx: DebounceCtx<Do, Odd>) -> Result<()> {
    let book = ctx.get::<Book>();
    book.note(format!("flush {:?}", ctx.state()));
    if book.script("flush") == "fail" { Err("no".into()) } else { Ok(()) }
}

async fn latest(ctx: DebounceCtx<Odd, Odd>) -> Result<()> {
    ctx.get::<Book>().note(format!("latest {:?} of {:?}", ctx.state(), ctx.first_event()));
    Ok(())
}

async fn beat(ctx: ContinuousCtx<Odd>) -> Result<()> {
    let book = ctx.get::<Book>();
    book.note(format!("beat {:?}", ctx.state()));
    if let Ok(place) = book.script("beat").parse() {
        ctx.update_state(|state| *state = odd(place));
    }
    Ok(())
}

async fn send(ctx: WorkerPoolCtx<Odd>, mail: Odd) -> Result<()> {
    ctx.get::<Book>().note(format!("mail {mail:?}"));
    Ok(())
}

async fn send_many(ctx: WorkerPoolCtx<Odd>, mails: Vec<PoolEvent<Odd>>) -> Result<()> {
    mails.iter().for_each(|mail| ctx.get::<Book>().note(format!("many {:?}", mail.event)));
    Ok(())
}

async fn nothing<C>(_: C) -> Result<()> {
    Ok(())
}

async fn engine() -> (TestEngine, Book) {
    let book = Book::default();
    let shared = book.clone();
    let test = TestEngine::new(move |engine| {
        engine
            .max_payload(BYTES_MAX)
            .provide(shared.clone())
            .job(TASK.on_event(on_event).execute(nothing))
            .job(PLAIN.on_event(plain).execute(nothing))
            .job(HOOKS.flush_after("1 minute").on_event(collect).execute(flush))
            .job(LATEST.flush_after("1 minute").execute(latest))
            .job(BEAT.every("1 hour").execute(beat))
            .job(MAIL.concurrency(2).execute(send))
            .job(MANY.concurrency(2).execute_batch(10, send_many))
    })
    .await;
    (test, book)
}

/// Puts an event into the store unchecked, as another process might, for the next life to find.
async fn put(test: &mut TestEngine, job: &str, id: &str, json: &str, place: PushTarget) {
    let push = outlive_core::queue::PushWrite {
        id: Name::recorded(&format!("{job}:{id}")),
        job: Name::recorded(job),
        events: vec![Event::new(Payload::recorded(json))],
        place,
        at: test.clock().now(),
        seed: 7,
        token: token_of(&format!("{job} {json}")),
    };
    test.store().write(Arc::new(vec![Write::Push(push)])).await.unwrap();
    test.crash().await;
    test.settle().await;
}

fn token_of(text: &str) -> u64 {
    text.bytes().fold(77, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

/// A state of `null` was mistaken for none, and one that does not read back was committed over the good one: the
/// instance was stuck with it, or a context panicked in every run.
#[tokio::test]
async fn task_keeps_any_state_that_reads_back_or_the_call_fails() {
    let (mut test, _) = engine().await;
    for (place, good) in GOOD.into_iter().enumerate() {
        test.job(TASK).send("a", &Do::Keep(place)).await.unwrap();
        test.settle().await;
        assert_eq!(test.job(TASK).state("a").await.unwrap(), Some(good.clone()));
        test.crash().await;
        test.job(TASK).send("a", &Do::Nothing).await.unwrap();
        test.settle().await;
        assert_eq!(test.job(TASK).state("a").await.unwrap(), Some(good));
    }
    for (place, bad) in BAD.into_iter().enumerate() {
        test.job(TASK).send("a", &Do::Keep(GOOD.len() + place)).await.unwrap();
        test.settle().await;
        assert_eq!(test.job(TASK).state("a").await.unwrap(), Some(Odd::Null), "{bad:?}");
        assert_eq!(test.job(TASK).dead().await.unwrap().len(), place + 1, "{bad:?}");
        test.crash().await;
        test.job(TASK).ask::<Odd>("a", &Do::Nothing).await.unwrap();
    }
}

#[tokio::test]
async fn continuous_job_keeps_any_state_that_reads_back_or_the_run_fails() {
    for good in GOOD {
        let (mut test, book) = engine().await;
        test.job(BEAT).start("a", &good).await.unwrap();
        test.settle().await;
        test.crash().await;
        for place in 2..6 {
            book.plan("beat", [place.to_string().as_str()]);
            test.advance("1 hour").await;
        }
        test.crash().await;
        test.advance("1 hour").await;
        assert_eq!(book.take(), vec![format!("beat {good:?}"); 6]);
        let info = test.job(BEAT).status("a").await.unwrap();
        assert_eq!((info.status, info.run_count), (JobStatus::Running, 6));
        assert_eq!(test.job(BEAT).state("a").await.unwrap(), Some(good));
    }
}

#[tokio::test]
async fn types_that_serialize_as_null_are_valid_states() {
    const UNIT: Continuous<()> = Continuous::new("unit");
    const MAYBE: Continuous<Option<u32>> = Continuous::new("maybe");
    async fn unit(ctx: ContinuousCtx<()>) -> Result<()> {
        let () = ctx.state();
        ctx.update_state(|()| ());
        Ok(())
    }
    async fn maybe(ctx: ContinuousCtx<Option<u32>>) -> Result<()> {
        ctx.update_state(|state| *state = state.map_or(Some(1), |_| None));
        Ok(())
    }
    let mut test = TestEngine::new(|engine| {
        engine.job(UNIT.every("1 hour").execute(unit)).job(MAYBE.every("1 hour").execute(maybe))
    })
    .await;
    test.job(UNIT).start("a", &()).await.unwrap();
    test.job(MAYBE).start("a", &None).await.unwrap();
    for run in 1..=4 {
        test.settle().await;
        let (unit, maybe) = (test.job(UNIT).status("a").await.unwrap(), test.job(MAYBE).status("a").await.unwrap());
        assert_eq!((unit.run_count, unit.last_error), (run, None));
        assert_eq!((maybe.run_count, maybe.last_error), (run, None));
        assert_eq!(test.job(MAYBE).state("a").await.unwrap(), Some((run % 2 == 1).then_some(1)));
        test.crash().await;
        test.advance("1 hour").await;
    }
}

#[tokio::test]
async fn batch_that_reads_back_is_kept_or_the_event_is_a_dead_letter() {
    let (mut test, book) = engine().await;
    for (place, good) in GOOD.into_iter().enumerate() {
        test.job(HOOKS).add("a", &Do::Keep(place)).await.unwrap();
        test.crash().await;
        for bad in 2..6 {
            test.job(HOOKS).add("a", &Do::Keep(bad)).await.unwrap();
        }
        book.plan("flush", ["fail"]);
        test.advance("1 minute").await;
        // The batch was given up, and is retried unchanged.
        let dead = test.job(HOOKS).dead().await.unwrap();
        assert_eq!(dead.len(), 5);
        let batch = dead.iter().find(|letter| letter.failure.to_string() == "no").unwrap();
        assert_eq!(test.job(HOOKS).retry_dead().only(batch.number).await.unwrap(), 1);
        test.settle().await;
        assert_eq!(book.take(), vec![format!("flush {:?}", Some(good)); 2]);
        test.job(HOOKS).discard_dead().await.unwrap();
    }
    // A batch that never had a state has none when it is retried.
    test.job(HOOKS).add("a", &Do::Nothing).await.unwrap();
    book.plan("flush", ["fail"]);
    test.advance("1 minute").await;
    assert_eq!(test.job(HOOKS).retry_dead().await.unwrap(), 1);
    test.settle().await;
    assert_eq!(book.take(), ["flush None", "flush None"]);
    // Without `on_event` the batch is the latest event.
    test.job(LATEST).add("a", &Odd::Null).await.unwrap();
    test.crash().await;
    test.advance("1 minute").await;
    assert_eq!(book.take(), ["latest Some(Null) of Some(Null)"]);
}

#[tokio::test]
async fn reply_that_does_not_read_back_is_an_error_and_the_task_continues() {
    let (test, _) = engine().await;
    for (place, good) in GOOD.into_iter().enumerate() {
        assert_eq!(test.job(TASK).ask::<Odd>("a", &Do::Answer(place)).await.unwrap(), good);
    }
    for (place, bad) in BAD.into_iter().enumerate() {
        let error = test.job(TASK).ask::<Odd>("a", &Do::Answer(GOOD.len() + place)).await.unwrap_err();
        assert!(matches!(error, Error::Failed { .. } | Error::Payload { .. }), "{bad:?}: {error}");
        assert_eq!(test.job(TASK).ask::<Odd>("a", &Do::Nothing).await.unwrap(), Odd::Fine);
    }
}

#[tokio::test]
async fn event_that_does_not_read_back_is_refused_and_writes_nothing() {
    let (test, book) = engine().await;
    for good in GOOD {
        test.job(PLAIN).send("a", &good).await.unwrap();
        test.job(MAIL).push(&good).await.unwrap();
        test.settle().await;
        assert_eq!(book.take(), [format!("mail {good:?}")]);
    }
    assert_eq!(test.job(PLAIN).state("a").await.unwrap(), Some(2));
    let before = contents(test.store()).await;
    for bad in BAD {
        let refused = [
            test.job(PLAIN).send("b", &bad).await.map(drop),
            test.job(LATEST).add("b", &bad).await.map(drop),
            test.job(MAIL).push(&bad).await.map(drop),
            test.job(MAIL).push_many([Push::new(Odd::Fine), Push::new(bad.clone())]).await.map(drop),
            test.job(BEAT).start("b", &bad).await.map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Payload { .. } | Error::PayloadTooLarge { .. }), "{bad:?}: {error}");
        }
    }
    assert_eq!(contents(test.store()).await, before);
}

/// One event whose `Deserialize` panics stopped its whole pool.
#[tokio::test]
async fn event_that_panics_when_read_is_a_dead_letter_and_the_pool_continues() {
    let (mut test, book) = engine().await;
    for (job, what) in [("pool:mail", "mail"), ("pool:many", "many")] {
        for json in ["\"do not read\"", "7", "\"no such\""] {
            put(&mut test, job, "main", json, PushTarget::Queue).await;
        }
        match what {
            "mail" => test.job(MAIL).push(&Odd::Null).await.map(drop).unwrap(),
            _ => test.job(MANY).push(&Odd::Null).await.map(drop).unwrap(),
        }
        test.settle().await;
        assert_eq!(book.take(), [format!("{what} Null")]);
    }
    let dead = test.job(MAIL).dead().await.unwrap();
    assert_eq!(dead.len(), 3);
    // Reading a dead letter does not panic either.
    assert!(dead.iter().all(|letter| matches!(letter.event(), Err(Error::Payload { .. }))));
    assert_eq!(test.job(MANY).dead().await.unwrap().len(), 3);
}

#[tokio::test]
async fn first_event_that_panics_when_read_is_a_dead_letter_later_ones_are_kept() {
    let (mut test, _) = engine().await;
    put(&mut test, "task:plain", "a", "\"do not read\"", PushTarget::Inbox).await;
    assert_eq!(test.job(PLAIN).status("a").await.unwrap().status, JobStatus::NotFound);
    assert_eq!(test.job(PLAIN).dead().await.unwrap().len(), 1);
    test.job(PLAIN).send("a", &Odd::Fine).await.unwrap();
    test.settle().await;
    put(&mut test, "task:plain", "a", " \"do not read\"", PushTarget::Inbox).await;
    assert_eq!(test.job(PLAIN).status("a").await.unwrap().status, JobStatus::Stuck);
    assert_eq!(test.job(PLAIN).state("a").await.unwrap(), Some(1));
}

#[tokio::test]
async fn input_or_output_that_does_not_read_back_is_an_error() {
    async fn give(_: Ctx, place: usize) -> Result<Odd> {
        Ok(odd(place))
    }
    async fn take(_: Ctx, _: Odd) -> Result<()> {
        Ok(())
    }
    let setup = |engine: outlive::Builder| engine.max_payload(BYTES_MAX).workflow("give", give).workflow("take", take);
    let test = TestEngine::new(setup).await;
    for place in 0..6 {
        let run = test.start(give, &place).await.unwrap();
        match test.result(&run).await {
            Ok(value) => assert_eq!(value, odd(place)),
            Err(error) => {
                assert!(place >= GOOD.len(), "{error}");
                assert!(matches!(error, Error::Failed { .. } | Error::Stuck { .. }), "{error}");
            }
        }
        let started = test.start(take, &odd(place)).await.map(drop);
        assert_eq!(started.is_ok(), place < GOOD.len());
    }
}
