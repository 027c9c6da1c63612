//! The context of a workflow function: every durable operation goes through it.

mod attempt_append;
mod call;
mod child;
mod codec;
mod effect;
mod layered;
mod map;
mod operation;
mod output;
mod patch;
mod question;
mod restart;
mod sleep;
mod step;
mod undos;
mod unwind;
mod wait;

use std::sync::Arc;

use outlive_core::duration::IntoDuration;
use outlive_core::id;
use outlive_core::time::Timestamp;
use outlive_core::workflow;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use attempt_append::AttemptAppend;
pub use child::{Child, ChildResult, RunChild, SpawnChild};
pub use effect::{Effect, PushEffect, StartRun};
pub use map::Map;
pub use output::{Append, Publish};
pub use patch::Patched;
pub use question::{Reply, SendReply, WaitAsk};
pub use restart::Restart;
pub use sleep::Sleep;
pub use step::undo::{UndoBody, UndoFuture};
pub use step::{Attempt, NoArgument, Step, StepBody, WithAttempt};
pub use unwind::UndoAll;
pub(crate) use unwind::{Unwinding, unwinding};
pub use wait::Wait;

use crate::error::{BoxError, Error};
pub use crate::instance::info::Info;
use crate::instance::resident::{CalledFrom, ResidentRun};
use crate::instance::target::{EventTarget, QueueTarget, Target};
use crate::output::Recordable;
use crate::question::QuestionNamed;
use crate::signal::{SignalNamed, SignalValue};

/// The context of a run. Cheap to clone; all clones refer to the same run.
///
/// ```
/// use outlive::prelude::*;
/// async fn greet(ctx: Ctx, name: String) -> Result<String> {
///     let greeting = ctx.step("look up greeting", || async { Ok::<_, BoxError>("hello".to_string()) }).await?;
///     ctx.sleep("1 hour").await?;
///     Ok(format!("{greeting}, {name}"))
/// }
/// ```
#[derive(Clone)]
pub struct Ctx {
    pub(crate) resident: Arc<ResidentRun>,
    /// The path of the scope: empty, or ending with `/`.
    scope: Arc<str>,
    /// The error in the scope's key, if there is one.
    problem: Option<Arc<Error>>,
}

impl Ctx {
    pub(crate) fn new(resident: Arc<ResidentRun>) -> Self {
        Self { resident, scope: Arc::from(""), problem: None }
    }

    /// Runs a side effect and records its result. The body is an async closure, or a closure that returns a future,
    /// with no argument or with one: the [`Attempt`]. It may borrow locals. It runs at least once, and never again once
    /// its result is recorded.
    ///
    /// ```
    /// use outlive::prelude::*;
    /// async fn fetch(url: &str, key: &str) -> Result<u32> { Ok(url.len() as u32 + key.len() as u32) }
    ///
    /// async fn crawl(ctx: Ctx, url: String) -> Result<u32> {
    ///     let size = ctx
    ///         .step("fetch", |attempt: Attempt| fetch_with(&url, attempt))
    ///         .timeout("10 seconds")
    ///         .retry(Retry::times(3))
    ///         .await?;
    ///     Ok(size)
    /// }
    /// async fn fetch_with(url: &str, attempt: Attempt) -> Result<u32> { fetch(url, attempt.idempotency_key()).await }
    /// ```
    ///
    /// Because it may run more than once, the body cannot move out of what it captures. If an `async move` block has to
    /// own something, such as an `Arc`, clone it in the closure, once per attempt. The error type of a body that ends
    /// in a bare `Ok(..)` cannot be inferred; end it with [`outlive::Ok`](crate::Ok) instead.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use std::sync::Arc;
    /// # struct Shop; impl Shop { async fn price(&self) -> u32 { 5 } }
    /// async fn total(ctx: Ctx, count: u32) -> Result<u32> {
    ///     let shop = Arc::new(Shop);
    ///     let price = ctx.step("ask price", || {
    ///         let shop = shop.clone();
    ///         async move { outlive::Ok(shop.price().await) }
    ///     });
    ///     Ok(price.await? * count)
    /// }
    /// ```
    #[track_caller]
    pub fn step<'a, B, M>(&'a self, name: &str, body: B) -> Step<'a, B, M>
    where
        B: StepBody<M>,
        B: 'a,
        M: 'a,
        B::Output: Serialize + DeserializeOwned,
        B::Error: Into<BoxError>,
    {
        Step::new(self, name, body)
    }

    /// Sleeps for a duration, through any number of restarts.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn nap(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.sleep("1 day 30 minutes").await?;
    ///     ctx.sleep(std::time::Duration::from_secs(5)).await?;
    ///     Ok(ctx.sleep(250).await?) // milliseconds
    /// }
    /// ```
    #[track_caller]
    pub fn sleep(&self, duration: impl IntoDuration) -> Sleep<'_> {
        Sleep::new(self, duration.into_duration().map_err(Error::from).map(workflow::Spec::SleepFor))
    }

    /// Sleeps until a moment. If the moment has passed, the sleep ends at once, but the run still pauses there.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn midnight(ctx: Ctx, at: Timestamp) -> Result<()> {
    ///     Ok(ctx.sleep_until(at).await?)
    /// }
    /// ```
    #[track_caller]
    pub fn sleep_until(&self, moment: impl Into<Timestamp>) -> Sleep<'_> {
        Sleep::new(self, Ok(workflow::Spec::SleepUntil(moment.into())))
    }

    /// Waits for the next signal with this name, given as text or as a [`SignalName`](crate::SignalName). Signals that
    /// arrived earlier are returned first, in order. One that does not deserialize as a `T` becomes a dead letter of
    /// the run, and the wait continues.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> {
    ///     match ctx.wait::<bool>("approval").timeout("3 days").await {
    ///         Ok(answer) => Ok(answer),
    ///         Err(error) if error.is_timeout() => Ok(false),
    ///         Err(error) => Err(error.into()),
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn wait<T: SignalValue>(&self, name: impl SignalNamed<T>) -> Wait<'_, T> {
        Wait::new(self, name.as_name())
    }

    /// Returns `true` if the run takes the new path of a change to the code, and `false` if it has passed this point with
    /// the old code. The choice is recorded, so every replay makes the same one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn check_stock() -> Result<u32> { Ok(1) }
    /// # async fn reserve_stock() -> Result<u32> { Ok(2) }
    /// async fn checkout(ctx: Ctx, _: ()) -> Result<u32> {
    ///     // Runs that have checked the stock already continue as they began; all others reserve it.
    ///     let stock = match ctx.patched("reserve stock").await? {
    ///         true => ctx.step("reserve", reserve_stock).await?,
    ///         false => ctx.step("check", check_stock).await?,
    ///     };
    ///     ctx.sleep("1 day").await?;
    ///     Ok(stock)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("checkout", checkout)).await;
    /// # let run = test.start(checkout, &()).await?;
    /// # assert_eq!(test.result(&run).await?, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// Once no run from before the change is left, remove the call and the old path. What the remaining runs have recorded
    /// about it is then ignored.
    #[track_caller]
    pub fn patched(&self, name: &str) -> Patched<'_> {
        Patched::new(self, name)
    }

    /// Undoes what the run has done so far, last first: runs the [undo](Step::undo) of each step and child that has
    /// succeeded, in all scopes. What is undone is not undone again when the run ends.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn book(what: &str) -> Result<String> { if what == "car" { Err("none left".into()) } else { Ok(what.into()) } }
    /// # async fn give_back(_: String) -> Result<()> { Ok(()) }
    /// async fn travel(ctx: Ctx, _: ()) -> Result<String> {
    ///     ctx.step("book flight", || book("flight")).undo("give back flight", give_back).await?;
    ///     if ctx.step("book car", || book("car")).undo("give back car", give_back).await.is_err() {
    ///         ctx.undo_all().await?; // the run does not fail, so nothing is undone by itself
    ///         return Ok("stay at home".into());
    ///     }
    ///     Ok("have a good trip".into())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("travel", travel).start().await?;
    /// let run = engine.start(travel, &()).await?;
    /// assert_eq!(run.result().await?, "stay at home");
    /// assert_eq!(run.completed_steps().await?, ["book flight", "undo:give back flight[book flight]"]);
    /// # Ok(()) }
    /// ```
    pub fn undo_all(&self) -> UndoAll<'_> {
        UndoAll::new(self.resident.clone())
    }

    /// Starts a child workflow and waits for its result. The child is a run of its own, with its own journal, and this run
    /// leaves memory while it waits. If this run ends before the child, the child is cancelled, unless it is
    /// [detached](RunChild::detach).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn ship(ctx: Ctx, order: String) -> Result<u32> {
    ///     ctx.sleep("1 day").await?;
    ///     Ok(order.len() as u32)
    /// }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<u32> {
    ///     match ctx.run(ship, &order).await {
    ///         Err(Error::Child { failure, .. }) => Err(format!("not shipped: {failure}").into()),
    ///         parcel => Ok(parcel?),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("checkout", checkout).workflow("ship", ship)).await;
    /// let run = test.start(checkout, &"tent".to_string()).id("order-42").await?;
    /// assert_eq!(test.result(&run).await?, 4);
    /// assert_eq!(test.client().get_run::<u32>("order-42/ship").await?.status().await?, Status::Completed);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn run<T: Target<M>, M>(&self, child: T, input: &T::Input) -> RunChild<'_, T::Output> {
        RunChild::new(self, &child, input)
    }

    /// Starts a child workflow and returns a handle to it, as soon as the start is durable. Otherwise like
    /// [`run`](Self::run).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn ship(_: Ctx, order: String) -> Result<u32> { Ok(order.len() as u32) }
    /// async fn checkout(ctx: Ctx, order: String) -> Result<u32> {
    ///     let parcel = ctx.spawn(ship, &order).await?;
    ///     let invoice = ctx.step("write invoice", || async { outlive::Ok(1) }).await?; // while the parcel is shipped
    ///     Ok(parcel.result().await? + invoice)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("checkout", checkout).workflow("ship", ship).start().await?;
    /// assert_eq!(engine.start(checkout, &"tent".to_string()).await?.result().await?, 5);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn spawn<T: Target<M>, M>(&self, child: T, input: &T::Input) -> SpawnChild<'_, T::Output> {
        SpawnChild::new(self, &child, input)
    }

    /// Starts a run that is not a child: this run neither waits for it nor ends it. Returns its id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn survey(_: Ctx, _: String) -> Result<()> { Ok(()) }
    /// async fn checkout(ctx: Ctx, customer: String) -> Result<()> {
    ///     ctx.start(survey, &customer).delay("1 week").await?; // long after this run has ended
    ///     Ok(())
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout).workflow("survey", survey); }
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] if another run has the id.
    #[track_caller]
    pub fn start<T: Target<M>, M>(&self, target: T, input: &T::Input) -> StartRun<'_> {
        StartRun::new(self, &target, input)
    }

    /// Sends a signal to another run.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn courier(ctx: Ctx, order: String) -> Result<()> {
    ///     ctx.sleep("1 day").await?;
    ///     Ok(ctx.signal(&order, "delivered", "at the door").await?)
    /// }
    /// async fn order(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.wait("delivered").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("courier", courier).workflow("order", order)).await;
    /// let run = test.start(order, &()).id("order-42").await?;
    /// test.start(courier, &"order-42".to_string()).await?;
    /// assert_eq!(test.result(&run).await?, "at the door");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such run, [`Error::Status`] if it has ended.
    #[track_caller]
    pub fn signal<V: Serialize + ?Sized>(&self, run: &str, name: impl SignalNamed<V>, value: &V) -> Effect<'_> {
        Effect::signal(self, run, name.as_name(), value)
    }

    /// Sends an event to an instance of a task or a debounce, and creates the instance if necessary.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::Task;
    /// const ORDERS: Task<u32, u32> = Task::new("orders");
    /// async fn checkout(ctx: Ctx, cents: u32) -> Result<()> {
    ///     Ok(ctx.send(ORDERS, "order-42", &cents).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout); }
    /// ```
    #[track_caller]
    pub fn send<J: EventTarget>(&self, job: J, id: &str, event: &J::Event) -> Effect<'_> {
        Effect::send(self, job, id, event)
    }

    /// Pushes an event to a worker pool.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::WorkerPool;
    /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
    /// async fn checkout(ctx: Ctx, customer: String) -> Result<()> {
    ///     Ok(ctx.push(MAIL, &format!("thank you, {customer}")).await?) // exactly once; the pool retries the mail
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("checkout", checkout); }
    /// ```
    #[track_caller]
    pub fn push<J: QueueTarget>(&self, pool: J, event: &J::Event) -> PushEffect<'_> {
        PushEffect::new(self, pool, event)
    }

    /// Restarts the run: it continues as the next run under its id, with another input and a fresh journal. A workflow that
    /// goes on for ever calls it every few hundred or thousand steps, so that its journal stays short.
    ///
    /// One commit ends this journal and begins the next. The id, the tags, the deadline, the children and the signals that
    /// nobody has waited for stay; [`Info::run_number`] grows. [`Run::result`](crate::Run::result), and a parent that waits
    /// for the run, wait for its last run. Its random numbers and idempotency keys are new ones.
    ///
    /// The call never returns, except with an error. What is outstanding in other branches is dropped, as if the function
    /// had returned. In a `select!`, another branch that is ready first wins.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn sync_page(page: u64) -> Result<()> { Ok(()) }
    /// async fn sync_pages(ctx: Ctx, first: u64) -> Result<()> {
    ///     for page in first..first + 1_000 {
    ///         ctx.step("sync page", || sync_page(page)).await?;
    ///         ctx.sleep("1 minute").await?;
    ///     }
    ///     Ok(ctx.restart(&(first + 1_000)).await?)
    /// }
    /// # fn main() { let _ = Engine::open("memory:").workflow("sync pages", sync_pages); }
    /// ```
    ///
    /// # Errors
    /// The restart returns [`Error::PayloadTooLarge`] if the input is too large, [`Error::Payload`] if it cannot be written
    /// as JSON, and [`Error::Cancelled`] if the run was cancelled: a cancel is final. The run continues after that. An input
    /// that the workflow could not read makes the run stuck, and nothing is written.
    #[track_caller]
    pub fn restart<T>(&self, input: &(impl Serialize + ?Sized)) -> Restart<'_, T> {
        Restart::new(self, input)
    }

    /// Publishes a value under a name, in place of the last one: anyone can read it with [`Run::value`](crate::Run::value)
    /// or follow it with [`Run::watch`](crate::Run::watch), while the run executes and after it.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn deliver(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.publish("state", "on its way").await?;
    ///     ctx.sleep("2 days").await?;
    ///     Ok(ctx.publish("state", "at the door").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = outlive_testkit::TestEngine::new(|engine| engine.workflow("deliver", deliver)).await;
    /// let run = test.start(deliver, &()).await?;
    /// # test.settle().await;
    /// assert_eq!(run.value::<String>("state").await?.unwrap(), "on its way");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Payload`] and [`Error::PayloadTooLarge`] for what cannot be stored; then nothing is.
    #[track_caller]
    pub fn publish<V: Recordable + ?Sized>(&self, name: &str, value: &V) -> Publish<'_> {
        Publish::new(self, name, value)
    }

    /// Appends an item to a stream of the run, exactly once: anyone can [read](crate::Run::stream) it by offset, live.
    /// Inside a step, use [`Attempt::append`].
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn visit(_: &str) -> Result<u32> { Ok(200) }
    /// async fn crawl(ctx: Ctx, pages: Vec<String>) -> Result<()> {
    ///     for page in &pages {
    ///         let status = ctx.step("visit", || visit(page)).key(page).await?;
    ///         ctx.append("visited", &(page.clone(), status)).await?;
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("crawl", crawl).start().await?;
    /// let run = engine.start(crawl, &vec!["/".to_string()]).await?;
    /// let first = run.stream::<(String, u32)>("visited").next().await?.unwrap();
    /// assert_eq!((first.offset, first.value), (0, ("/".to_string(), 200)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::StreamFull`] if the stream is full, and the errors of [`publish`](Self::publish).
    #[track_caller]
    pub fn append<V: Recordable + ?Sized>(&self, stream: &str, value: &V) -> Append<'_> {
        Append::new(self, stream, value)
    }

    /// Waits for a question that is [asked](crate::Run::ask) from outside, and returns it with the means to reply.
    /// Questions wait for a run as signals do, and each is given to one wait.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn till(ctx: Ctx, mut cents: i64) -> Result<()> {
    ///     loop {
    ///         let (change, reply) = ctx.wait_ask::<i64, i64>("add").await?;
    ///         cents += change;
    ///         reply.send(&cents).await?;
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("till", till).start().await?;
    /// let run = engine.start(till, &100).await?;
    /// let cents: i64 = run.ask("add", &-20_i64).await?;
    /// assert_eq!(cents, 80);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::WaitTimeout`] if it has a timeout, [`Error::Cancelled`] if the run is cancelled.
    #[track_caller]
    pub fn wait_ask<Q: SignalValue, A>(&self, name: impl QuestionNamed<Q, A>) -> WaitAsk<'_, Q, A> {
        WaitAsk::new(self, name.as_name())
    }

    /// Returns a context whose operations belong to a key: for concurrent branches that use the same names.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn price(shop: &str) -> Result<u32> { Ok(shop.len() as u32) }
    /// async fn cheapest(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let (left, right) = (ctx.scope("left"), ctx.scope("right"));
    ///     let (a, b) = tokio::try_join!(left.step("ask", || price("one")), right.step("ask", || price("two")))?;
    ///     Ok(a.min(b))
    /// }
    /// ```
    #[must_use]
    pub fn scope(&self, key: impl ToString) -> Ctx {
        self.scope_of(&key.to_string(), 1)
    }

    /// Returns the n-th scope of a key. If the key is invalid, the operations in the scope return the error.
    pub(crate) fn scope_of(&self, key: &str, occurrence: u32) -> Ctx {
        let wrong = || if key.is_empty() { None } else { check("scope key", key).err().map(Arc::new) };
        let problem = self.problem.clone().or_else(wrong);
        Ctx { resident: self.resident.clone(), scope: workflow::numbered_scope(&self.scope, key, occurrence), problem }
    }

    /// Runs `f` for each item concurrently, each in its own scope, and returns the results in the order of the items.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn reserve(item: &str) -> Result<u32> { Ok(item.len() as u32) }
    /// async fn reserve_all(ctx: Ctx, items: Vec<String>) -> Result<Vec<u32>> {
    ///     ctx.map(&items, |item| item.to_string(), |scope, item| async move {
    ///         Ok::<_, BoxError>(scope.step("reserve", || reserve(item)).await?)
    ///     })
    ///     .concurrency(4)
    ///     .await
    /// }
    /// ```
    pub fn map<'a, T, K, F, Fut, R, E>(
        &self,
        items: impl IntoIterator<Item = T>,
        key_of: impl Fn(&T) -> K,
        f: F,
    ) -> Map<'a, T, F, R, E>
    where
        T: Send + 'a,
        K: ToString,
        F: Fn(Ctx, T) -> Fut + Send + 'a,
        Fut: Future<Output = Result<R, E>> + Send + 'a,
        R: Send + 'a,
        E: Send + 'a,
    {
        Map::new(self, items.into_iter(), key_of, f)
    }

    /// Returns the time as the run sees it: the time of its last delivery, so that every replay sees the same.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn age(ctx: Ctx, born: Timestamp) -> Result<u64> { Ok(ctx.now().since(born).as_secs()) }
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.resident.lock().machine.now()
    }

    /// Returns a random number that every replay draws again. Branches that race must draw from their own
    /// [scopes](Self::scope).
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn dice(ctx: Ctx, _: ()) -> Result<u64> { Ok(ctx.random() % 6 + 1) }
    /// ```
    #[must_use]
    pub fn random(&self) -> u64 {
        self.draw("random")
    }

    /// Returns a random UUID (version 4) that every replay draws again.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn order_number(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.uuid().to_string()) }
    /// ```
    #[must_use]
    pub fn uuid(&self) -> uuid::Uuid {
        let bytes = u128::from(self.draw("uuid")) << 64 | u128::from(self.draw("uuid"));
        uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid()
    }

    /// Returns what the run knows about itself.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn who(ctx: Ctx, _: ()) -> Result<String> { Ok(ctx.info().id.clone()) }
    /// ```
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.resident.info
    }

    /// Returns a value that was [provided](crate::Builder::provide) to the engine.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// struct Stripe;
    /// impl Stripe { async fn charge(&self) -> Result<u32> { Ok(1) } }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.step("charge", || ctx.get::<Stripe>().charge()).await?)
    /// }
    /// ```
    ///
    /// # Panics
    /// If no such value was provided. The run is then stuck until a program that provides it is started.
    /// [`try_get`](Self::try_get) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn get<T: Send + Sync + 'static>(&self) -> &T {
        match self.try_get() {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`get`](Self::get), but returns an error if no such value was provided.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// struct Prices { tea: u32 }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> {
    ///     Ok(ctx.try_get::<Prices>().map_or(5, |prices| prices.tea))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("price", price).start().await?;
    /// assert_eq!(engine.start(price, &()).await?.result().await?, 5); // none was provided
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotProvided`] if no such value was provided.
    pub fn try_get<T: Send + Sync + 'static>(&self) -> Result<&T, Error> {
        let found = self.resident.env.provided.get();
        if found.is_err() && self.resident.env.unmade.contains(&std::any::TypeId::of::<T>()) {
            self.resident.lock().findings_mut().unmade.get_or_insert(std::any::type_name::<T>());
        }
        found
    }

    fn draw(&self, stream: &'static str) -> u64 {
        let mut state = self.resident.lock();
        let count = state.draws.entry((self.scope.clone(), stream)).or_insert(0);
        *count += 1;
        let text = self.scope.bytes().chain(stream.bytes());
        let stream = text.fold(self.resident.info.seed, |sum, byte| mix(sum ^ u64::from(byte)));
        mix(stream ^ *count)
    }

    pub(crate) fn place(&self) -> CalledFrom {
        self.resident.place()
    }
}

/// Mixes the bits of a number (the final steps of splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Checks the name or key that an operation is given.
pub(crate) fn check(what: &'static str, text: &str) -> Result<(), Error> {
    id::check(what, text).map_err(Error::from)
}
