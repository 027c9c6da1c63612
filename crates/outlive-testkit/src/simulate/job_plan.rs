//! Actions on the jobs of a world, as a test describes them.

use outlive::IntoDuration;
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use serde::Serialize;

use super::acts::{Act, Wish};
use super::orders::{Order, Pushed, pool_instance};
use super::plan::Sim;

/// Jobs are named with their kind, as in `task:orders`. Each action is repeated until it is acknowledged, so an event
/// without a key can be accepted more than once; [`EndedJob::events`](super::EndedJob::events) has those that were
/// accepted.
impl Sim {
    /// Sends an event to an instance of a task, after those sent to it earlier. It has a key, so it counts once.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// use outlive::job::{Task, TaskCtx};
    /// const COUNTERS: Task<u32, u32> = Task::new("counter");
    /// async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> { ctx.update_state(|sum| *sum += n); Ok(()) }
    /// async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> { Ok(()) }
    /// simulate(0..50, |sim| {
    ///     sim.engine(|engine| engine.job(COUNTERS.on_event(add).execute(nothing)));
    ///     sim.send("task:counter", "tea", &2);
    ///     sim.send("task:counter", "tea", &3);
    ///     sim.check(|end| match end.jobs["task:counter:tea"].state() {
    ///         Some(5) => Ok(()),
    ///         other => Err(format!("{other:?} instead of 5")),
    ///     });
    /// });
    /// ```
    pub fn send<T: Serialize + ?Sized>(&mut self, job: &str, id: &str, event: &T) {
        let event = self.encode("event", event);
        self.want(job, &[JobKind::Task], format!("{job}:{id}"), Order::Send(event));
    }

    /// Pushes an event to a pool at some moment. The returned value sets [options](Pushing).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// use outlive::job::{WorkerPoolCtx, WorkerPool};
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn deliver(_: WorkerPoolCtx<String>, to: String) -> Result<()> { if to == "nobody" { Err("no such".into()) } else { Ok(()) } }
    /// simulate(0..50, |sim| {
    ///     sim.engine(|engine| engine.job(MAIL.concurrency(2).execute(deliver)));
    ///     sim.push("pool:mail", "ada").priority(5).delay("1 minute");
    ///     sim.push("pool:mail", "nobody");
    ///     sim.check(|end| {
    ///         // That each event is handled and recorded once, or is a dead letter, is always checked.
    ///         let dead: Vec<String> = end.jobs["pool:mail:main"].dead();
    ///         if dead.iter().all(|to| to == "nobody") { Ok(()) } else { Err(format!("{dead:?}")) }
    ///     });
    /// });
    /// ```
    pub fn push<T: Serialize + ?Sized>(&mut self, job: &str, event: &T) -> Pushing<'_> {
        self.push_many(job, [event])
    }

    /// Pushes events to a pool at some moment, all or none.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # use outlive::job::{WorkerPoolCtx, WorkerPool};
    /// # const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
    /// # async fn deliver(_: WorkerPoolCtx<u32>, _: u32) -> Result<()> { Ok(()) }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.job(MAIL.concurrency(2).execute(deliver)));
    ///     sim.push_many("pool:mail", [&1, &2, &3]);
    ///     sim.check(|end| {
    ///         let accepted: Vec<u32> = end.jobs["pool:mail:main"].accepted();
    ///         if accepted.starts_with(&[1, 2, 3]) { Ok(()) } else { Err(format!("{accepted:?}")) }
    ///     });
    /// });
    /// ```
    pub fn push_many<'e, T: Serialize + ?Sized + 'e>(
        &mut self,
        job: &str,
        events: impl IntoIterator<Item = &'e T>,
    ) -> Pushing<'_> {
        let events = events.into_iter().map(|event| Pushed {
            payload: self.encode("event", event),
            priority: 0,
            key: None,
            delay: None,
            once: None,
        });
        let events = events.collect();
        self.want(job, &[JobKind::Pool], pool_instance(job), Order::Push(events));
        Pushing { sim: self }
    }

    /// Pauses a pool, after what was pushed to it earlier: it begins nothing more.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # use outlive::job::{WorkerPoolCtx, WorkerPool};
    /// # const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
    /// # async fn deliver(_: WorkerPoolCtx<u32>, _: u32) -> Result<()> { Ok(()) }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.job(MAIL.concurrency(2).execute(deliver)));
    ///     sim.push("pool:mail", &1);
    ///     sim.pause("pool:mail");
    ///     sim.push("pool:mail", &2);
    ///     sim.resume("pool:mail"); // otherwise, events may remain at the end
    /// });
    /// ```
    pub fn pause(&mut self, job: &str) {
        self.want(job, &[JobKind::Pool], pool_instance(job), Order::Tell(Message::Pause));
    }

    /// Resumes a pool. See [`pause`](Self::pause).
    pub fn resume(&mut self, job: &str) {
        self.want(job, &[JobKind::Pool], pool_instance(job), Order::Tell(Message::Resume));
    }

    /// Retries the dead letters that a pool, debounce or task has at that moment. Ordered after earlier actions on the
    /// instance with this id, which is `main` for a pool.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # use outlive::job::{WorkerPoolCtx, WorkerPool};
    /// # const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
    /// # async fn fail(_: WorkerPoolCtx<u32>, _: u32) -> Result<()> { Err("never".into()) }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.job(MAIL.concurrency(2).execute(fail)));
    ///     sim.push("pool:mail", &1);
    ///     sim.retry_dead("pool:mail", "main");
    /// });
    /// ```
    pub fn retry_dead(&mut self, job: &str, id: &str) {
        let kinds = [JobKind::Pool, JobKind::Debounce, JobKind::Task];
        self.want(job, &kinds, format!("{job}:{id}"), Order::RetryDead);
    }

    /// Adds an event to an instance of a debounce at some moment.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// use outlive::job::{Debounce, DebounceCtx};
    /// const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("hooks");
    /// async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, n: u32) -> Result<()> { ctx.update_state(|all| all.push(n)); Ok(()) }
    /// async fn flush(_: DebounceCtx<u32, Vec<u32>>) -> Result<()> { Ok(()) }
    /// simulate(0..50, |sim| {
    ///     sim.engine(|engine| engine.job(HOOKS.flush_after("5 seconds").on_event(collect).execute(flush)));
    ///     sim.add("debounce:hooks", "shop", &1);
    ///     sim.add_once("debounce:hooks", "shop", &2, "order 2");
    ///     sim.flush("debounce:hooks", "shop");
    ///     sim.check(|end| {
    ///         // That each event is in one batch is always checked.
    ///         let hooks = &end.jobs["debounce:hooks:shop"];
    ///         if hooks.lifecycle.contains(&"debounce flushed") { Ok(()) } else { Err(format!("{:?}", hooks.lifecycle)) }
    ///     });
    /// });
    /// ```
    pub fn add<T: Serialize + ?Sized>(&mut self, job: &str, id: &str, event: &T) {
        let event = self.encode("event", event);
        self.want(job, &[JobKind::Debounce], format!("{job}:{id}"), Order::Add(event, None));
    }

    /// Like [`add`](Self::add), with a key that counts once per batch.
    pub fn add_once<T: Serialize + ?Sized>(&mut self, job: &str, id: &str, event: &T, key: &str) {
        let event = self.encode("event", event);
        self.want(job, &[JobKind::Debounce], format!("{job}:{id}"), Order::Add(event, Some(key.to_owned())));
    }

    /// Flushes a batch, after what was added to it earlier. See [`add`](Self::add).
    pub fn flush(&mut self, job: &str, id: &str) {
        self.want(job, &[JobKind::Debounce], format!("{job}:{id}"), Order::Tell(Message::Trigger));
    }

    /// Drops a batch, after what was added to it earlier. See [`add`](Self::add).
    pub fn clear(&mut self, job: &str, id: &str) {
        self.want(job, &[JobKind::Debounce], format!("{job}:{id}"), Order::Tell(Message::Clear));
    }

    /// Starts an instance of a continuous job, or resumes one that was stopped.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// use outlive::job::{Continuous, ContinuousCtx};
    /// const BEAT: Continuous<u64> = Continuous::new("beat");
    /// async fn beat(ctx: ContinuousCtx<u64>) -> Result<()> { ctx.update_state(|beats| *beats += 1); Ok(()) }
    /// simulate(0..50, |sim| {
    ///     sim.engine(|engine| engine.job(BEAT.every("1 minute").execute(beat)));
    ///     sim.start_job("continuous:beat", "paris", &0);
    ///     sim.trigger("continuous:beat", "paris");
    ///     if sim.below(2) == 0 {
    ///         sim.stop("continuous:beat", "paris");
    ///     }
    ///     sim.check(|end| {
    ///         // That it runs again, unless it is stopped, is always checked.
    ///         let paris = &end.jobs["continuous:beat:paris"];
    ///         let runs = paris.record.as_ref().map(|record| record.runs);
    ///         if paris.state() == runs { Ok(()) } else { Err(format!("{runs:?} runs, and {:?}", paris.state::<u64>())) }
    ///     });
    /// });
    /// ```
    pub fn start_job<T: Serialize + ?Sized>(&mut self, job: &str, id: &str, state: &T) {
        let state = self.encode("state", state);
        self.want(job, &[JobKind::Continuous], format!("{job}:{id}"), Order::Begin(state));
    }

    /// Stops a continuous job, after earlier actions on it. See [`start_job`](Self::start_job).
    pub fn stop(&mut self, job: &str, id: &str) {
        self.want(job, &[JobKind::Continuous], format!("{job}:{id}"), Order::Tell(Message::Pause));
    }

    /// Triggers an execution of a continuous job or a task, after earlier actions on it. See
    /// [`start_job`](Self::start_job).
    pub fn trigger(&mut self, job: &str, id: &str) {
        let kinds = [JobKind::Continuous, JobKind::Task];
        self.want(job, &kinds, format!("{job}:{id}"), Order::Tell(Message::Trigger));
    }

    /// Removes a job instance with everything it has stored, after earlier actions on it.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # use outlive::job::{Continuous, ContinuousCtx};
    /// # const BEAT: Continuous<u64> = Continuous::new("beat");
    /// # async fn beat(ctx: ContinuousCtx<u64>) -> Result<()> { ctx.update_state(|beats| *beats += 1); Ok(()) }
    /// simulate(0..50, |sim| {
    ///     sim.engine(|engine| engine.job(BEAT.every("1 minute").execute(beat)));
    ///     sim.start_job("continuous:beat", "paris", &0);
    ///     sim.terminate("continuous:beat", "paris", "moved to London");
    ///     sim.check(|end| match &end.jobs["continuous:beat:paris"].record {
    ///         None => Ok(()),
    ///         record => Err(format!("it is there: {record:?}")),
    ///     });
    /// });
    /// ```
    pub fn terminate(&mut self, job: &str, id: &str, reason: &str) {
        let kinds = [JobKind::Continuous, JobKind::Debounce, JobKind::Task];
        let message = Message::Terminate { reason: reason.to_owned() };
        self.want(job, &kinds, format!("{job}:{id}"), Order::Tell(message));
    }

    /// Records an action. Events for a pool or a debounce come in any order; everything else comes in call order.
    fn want(&mut self, job: &str, kinds: &[JobKind], run: String, order: Order) {
        let kind = job.split_once(':').and_then(|(kind, _)| JobKind::from_text(kind));
        if !kind.is_some_and(|kind| kinds.contains(&kind)) {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            self.wrong(format!(
                "{job:?} does not support this; pass a job name such as `{}:name`",
                kinds.join(":name`, `")
            ));
        }
        let is_free = matches!(order, Order::Add(..) | Order::Push(_));
        let is_before = |act: &Act| match &act.wish {
            Wish::Job(before) => act.run == run && !(is_free && before.is_event()),
            _ => false,
        };
        let after = self.acts.iter().rposition(is_before);
        if after.is_none() && !order.is_event() && !matches!(order, Order::Begin(_)) {
            self.wrong(format!("{run:?} does not exist yet; start it or send it an event first"));
        }
        self.acts.push(Act { run, wish: Wish::Job(order), after });
    }
}

/// Options for pushed events, as in [`outlive::job::Push`].
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::{WorkerPoolCtx, WorkerPool};
/// use outlive_testkit::{Sim, simulate};
/// # const MAIL: WorkerPool<u32> = WorkerPool::new("mail");
/// # async fn deliver(_: WorkerPoolCtx<u32>, _: u32) -> Result<()> { Ok(()) }
/// fn world(sim: &mut Sim) {
///     sim.engine(|engine| engine.job(MAIL.concurrency(2).execute(deliver)));
///     sim.push("pool:mail", &1).priority(5);
///     sim.push("pool:mail", &2).lane("ada").delay("1 minute");
///     sim.push("pool:mail", &3).dedup_key("order 3"); // that no two wait with the same key is always checked
/// }
/// simulate(0..20, world);
/// ```
pub struct Pushing<'a> {
    sim: &'a mut Sim,
}

impl Pushing<'_> {
    /// Sets the priority; larger values go first.
    pub fn priority(self, priority: i32) -> Self {
        self.each(|event| event.priority = priority)
    }

    /// Sets the lane; lanes take turns.
    pub fn lane(self, lane: &str) -> Self {
        self.each(|event| event.key = Some(lane.to_owned()))
    }

    /// Delays the events by this much.
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        match delay.into_duration() {
            Ok(delay) => self.each(|event| event.delay = Some(delay)),
            Err(error) => {
                self.sim.wrong(error.to_string());
                self
            }
        }
    }

    /// Skips an event while another one with this key waits.
    pub fn dedup_key(self, key: &str) -> Self {
        self.each(|event| event.once = Some(key.to_owned()))
    }

    fn each(self, change: impl FnMut(&mut Pushed)) -> Self {
        if let Some(Act { wish: Wish::Job(Order::Push(events)), .. }) = self.sim.acts.last_mut() {
            events.iter_mut().for_each(change);
        }
        self
    }
}
