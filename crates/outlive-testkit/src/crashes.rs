//! Crashes a workflow everywhere: before and after every commit, and at pairs of them, in memory and virtual time.

mod jobs;
mod ledger;
mod report;
mod rules;
mod schedule;
mod search;
mod stage;
mod tape;
mod timeline;
mod warning;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use outlive::workflow::WorkflowFn;
use outlive::{BoxError, Builder, IntoDuration, Payload, StepCall};
use serde::Serialize;
use tokio::runtime::{Handle, RuntimeFlavor};

pub use jobs::{CrashJobs, JobReport, crash_jobs_everywhere};
pub use ledger::{Effect, Ledger, OtherRun};
pub use report::{Broken, Report};
pub use warning::{Warning, WarningKind};

use search::Search;
use stage::{Kind, Message, Plan, Setup};

/// Default limit on pairs of crashes.
const PAIRS_MAX: usize = 200;

/// Crashes a workflow at every point and checks that no crash can be observed.
///
/// The workflow first runs once without a crash. It then runs again for each commit, with the process dying just before
/// it and just after it and restarting; then for pairs of such crashes. Everything happens in memory and in virtual
/// time. Each trial is checked against these rules, with no setup on your part:
///
/// - without a crash, the run completes (unless it is [expected to fail](CrashEverywhere::expect_failure) or
///   [cancelled](CrashEverywhere::cancel_at));
/// - with crashes, it ends with the same outcome as without (unless it [races](CrashEverywhere::races)), and so do its
///   children and all other runs that were started;
/// - a step whose end is recorded never runs again, nor does an attempt whose failure is recorded;
/// - each crash adds at most one execution of a step, and no step goes missing;
/// - an at-most-once step runs at most once, and if a crash interrupts it, the run continues and completes, always in
///   the same way;
/// - a replay of the journal requests the same operations and ends the same way, at every quiet point and at the end.
///
/// Add your own rules with [`invariant`](CrashEverywhere::invariant). The report also says how the run ended and lists
/// [warnings](Report::warnings) worth a look: steps that ran twice without reading their idempotency key, and steps
/// that one call site calls several times without a key.
///
/// A crash here does not end a real process: statics keep their values, and so does anything behind an `Arc` created
/// outside. Create memory that should die with the process through [`provide_with`](CrashEverywhere::provide_with).
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::crash_everywhere;
///
/// async fn checkout(ctx: Ctx, cents: u32) -> Result<String> {
///     let payment = ctx.step("charge card", |attempt: Attempt| charge(cents, attempt)).retry(5).await?;
///     let by: String = ctx.wait("approval").timeout("3 days").await?;
///     Ok(format!("{payment}, approved by {by}"))
/// }
/// # async fn charge(cents: u32, attempt: Attempt) -> Result<String> {
/// #     Ok(format!("{cents} paid as {}", attempt.idempotency_key()))
/// # }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() { // in a test: #[tokio::test]
/// let report = crash_everywhere(checkout).input(&500).signal_at("2 hours", "approval", "ada").run().await;
/// assert!(report.schedules() > 20 && report.warnings().is_empty());
/// # }
/// ```
///
/// Requires tokio's current-thread runtime, the default of `#[tokio::test]`. A workflow that uses `tokio::select!`
/// between branches that are ready at the same time is not deterministic, because the macro picks a branch at random; a
/// failing schedule of such a workflow may need more than one try to reproduce.
pub fn crash_everywhere<F, M>(workflow: F) -> CrashEverywhere<F::Input>
where
    F: WorkflowFn<M> + Clone,
    M: 'static,
{
    let name = short_name(std::any::type_name::<F>());
    let registered = name.clone();
    let register: Setup = Arc::new(move |builder: Builder| builder.workflow(&registered, workflow.clone()));
    let plan = Plan {
        workflow: name,
        input: Payload::recorded("null"),
        setups: vec![register],
        worlds: Vec::new(),
        messages: Vec::new(),
        fakes: Vec::new(),
        patience: Duration::ZERO,
    };
    let search = Search {
        plan,
        may_race: false,
        expects_failure: false,
        invariants: Vec::new(),
        idempotent: Vec::new(),
        ordered: Vec::new(),
        denies_warnings: false,
        bounds: vec![usize::MAX, PAIRS_MAX],
        only: None,
    };
    CrashEverywhere { search, input: PhantomData }
}

/// Builder for a crash test of a workflow, created by [`crash_everywhere`].
///
/// ```
/// use outlive_testkit::crash_everywhere;
/// use outlive_testkit::crashes::CrashEverywhere;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// /// The settings that all of our tests use.
/// fn strictly(crashes: CrashEverywhere<u32>) -> CrashEverywhere<u32> { crashes.pairs(1_000).deny_warnings() }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// strictly(crash_everywhere(double).input(&21)).run().await;
/// # }
/// ```
#[must_use = "nothing runs until `.run()` is awaited"]
pub struct CrashEverywhere<I> {
    search: Search,
    input: PhantomData<fn(I)>,
}

impl<I: Serialize> CrashEverywhere<I> {
    /// Sets the workflow's input. Required unless the input type is `()`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(double).input(&21).run().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the input cannot be serialized.
    pub fn input(mut self, input: &I) -> Self {
        self.search.plan.input =
            Payload::encode(input).unwrap_or_else(|error| panic!("the input cannot be serialized: {error}"));
        self
    }
}

impl<I> CrashEverywhere<I> {
    /// Sends a signal as soon as the run has started. The sender repeats it until it is acknowledged.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(approve).signal("approval", &true).run().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the value cannot be serialized.
    pub fn signal<T: Serialize + ?Sized>(self, name: &str, value: &T) -> Self {
        self.signal_at(Duration::ZERO, name, value)
    }

    /// Sends a signal this long after the start, in virtual time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").timeout("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(approve).signal_at("2 hours", "approval", &true).run().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the text is not a valid duration, or the value cannot be serialized.
    pub fn signal_at<T: Serialize + ?Sized>(self, after: impl IntoDuration, name: &str, value: &T) -> Self {
        let value = serde_json::value::to_raw_value(value)
            .unwrap_or_else(|error| panic!("the value of signal {name:?} cannot be serialized: {error}"));
        self.message(after, Kind::Signal { name: name.to_owned(), value })
    }

    /// Asks a question this long after the start, in virtual time. The answer is one of the things that must be the same with
    /// and without crashes.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn shop(ctx: Ctx, _: ()) -> Result<()> {
    ///     let (item, reply) = ctx.wait_ask::<String, u32>("price").await?;
    ///     Ok(reply.send(&(item.len() as u32)).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(shop).ask_at("1 hour", "price", "tea").run().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the text is not a valid duration, or the value cannot be serialized.
    pub fn ask_at<T: Serialize + ?Sized>(self, after: impl IntoDuration, name: &str, value: &T) -> Self {
        let value = serde_json::value::to_raw_value(value)
            .unwrap_or_else(|error| panic!("the value of question {name:?} cannot be serialized: {error}"));
        self.message(after, Kind::Question { name: name.to_owned(), value })
    }

    /// Cancels the run this long after the start, in virtual time.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(nap).cancel_at("1 hour", "time to get up").run().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the text is not a valid duration.
    pub fn cancel_at(self, after: impl IntoDuration, reason: &str) -> Self {
        self.message(after, Kind::Cancel { reason: reason.to_owned() })
    }

    fn message(mut self, after: impl IntoDuration, kind: Kind) -> Self {
        let after = after.into_duration().unwrap_or_else(|error| panic!("{error}"));
        let messages = &mut self.search.plan.messages;
        messages.push(Message { after, kind });
        messages.sort_by_key(|message| message.after);
        self
    }

    /// Replaces the body of a step: every attempt returns the result of `fake`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn charge() -> Result<u32> { Err("this charges real money".into()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).retry(3).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(pay)
    ///     .step("charge", |call| if call.attempt == 1 { Err("try again") } else { Ok(42) })
    ///     .run()
    ///     .await;
    /// # }
    /// ```
    pub fn step<T: Serialize, E: Into<BoxError>>(
        mut self,
        name: &str,
        fake: impl Fn(&StepCall<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let fake = move |call: &StepCall<'_>| Ok(Payload::encode(&fake(call).map_err(Into::into)?)?);
        self.search.plan.fakes.push((name.to_owned(), Arc::new(fake)));
        self
    }

    /// Provides a value to the workflow through its context. Every process lifetime of every trial gets the same value,
    /// so anything behind an `Arc` in it survives all crashes. For state that changes, use
    /// [`provide_with`](Self::provide_with) if it dies with the process and [`world`](Self::world) if it does not.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// #[derive(Clone)]
    /// struct Prices { tea: u32 }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.get::<Prices>().tea) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(price).provide(Prices { tea: 3 }).run().await;
    /// # }
    /// ```
    pub fn provide<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.setup(move |builder| builder.provide(value.clone()))
    }

    /// Provides a value that is created anew in each process lifetime: memory, which a crash clears.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// use std::sync::Mutex;
    /// #[derive(Default)]
    /// struct Cache(Mutex<Option<u32>>); // like any memory, empty after a crash
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let fetch = || async { Ok::<_, BoxError>(*ctx.get::<Cache>().0.lock().unwrap().get_or_insert(3)) };
    ///     Ok(ctx.step("fetch", fetch).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(price).provide_with(Cache::default).run().await;
    /// # }
    /// ```
    pub fn provide_with<T: Send + Sync + 'static>(self, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        self.setup(move |builder| builder.provide(make()))
    }

    /// Configures the engine further. `setup` is called in each process lifetime, and whatever it creates dies with the
    /// process.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(double).input(&21).setup(|engine| engine.max_payload(1024)).run().await;
    /// # }
    /// ```
    pub fn setup(mut self, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.search.plan.setups.push(Arc::new(setup));
        self
    }

    /// Provides something that lives outside the process and outlives it: a bank, a file, a mail server. It is created
    /// once per trial, and each process lifetime gets a clone, which shares whatever is behind an `Arc`.
    /// [Invariants](Self::invariant) see it too.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// use std::collections::BTreeSet;
    /// use std::sync::{Arc, Mutex};
    ///
    /// #[derive(Clone, Default)]
    /// struct Bank(Arc<Mutex<BTreeSet<String>>>);
    ///
    /// async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    ///     let bank = ctx.get::<Bank>();
    ///     let charge = |attempt: Attempt| async move {
    ///         bank.0.lock().unwrap().insert(attempt.idempotency_key().to_owned()); // a duplicate changes nothing
    ///         Ok::<_, BoxError>(())
    ///     };
    ///     Ok(ctx.step("charge", charge).await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(pay)
    ///     .world(Bank::default)
    ///     .invariant("one payment", |ledger| match ledger.world::<Bank>().0.lock().unwrap().len() {
    ///         1 => Ok(()),
    ///         payments => Err(format!("{payments} payments")),
    ///     })
    ///     .run()
    ///     .await;
    /// # }
    /// ```
    pub fn world<W: Clone + Send + Sync + 'static>(mut self, make: impl Fn() -> W + Send + Sync + 'static) -> Self {
        self.search.plan.worlds.push(Arc::new(move || {
            let world = make();
            let seen: Arc<dyn Any + Send + Sync> = Arc::new(world.clone());
            (Arc::new(move |builder: Builder| builder.provide(world.clone())), seen)
        }));
        self
    }

    /// Adds a rule that must hold after each trial, whatever crashed.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn charge(_: Attempt) -> Result<u32> { Ok(42) }
    /// # async fn ship(_: Attempt) -> Result<u32> { Ok(42) }
    /// async fn order(ctx: Ctx, _: ()) -> Result<u32> {
    ///     ctx.step("charge", charge).await?;
    ///     Ok(ctx.step("ship", ship).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(order)
    ///     .invariant("nothing is shipped that is not paid", |ledger| {
    ///         let first = |step| ledger.effects().iter().position(|effect| effect.step == step);
    ///         if first("charge") < first("ship") { Ok(()) } else { Err("shipped first".into()) }
    ///     })
    ///     .run()
    ///     .await;
    /// # }
    /// ```
    pub fn invariant(
        mut self,
        name: &str,
        invariant: impl Fn(&Ledger) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.search.invariants.push((name.to_owned(), Arc::new(invariant)));
        self
    }

    /// Allows a crash to change the outcome, because the workflow races. The outcome is then not compared with the one
    /// without a crash. Everything else is still checked, including that a replay of the journal ends the same way.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn ask(name: &str) -> Result<String> { Ok(name.to_owned()) }
    /// async fn fastest(ctx: Ctx, _: ()) -> Result<String> {
    ///     tokio::select! {
    ///         biased;
    ///         one = ctx.step("ask one", || ask("one")) => Ok(one?),
    ///         other = ctx.step("ask other", || ask("other")) => Ok(other?), // may be first after a crash
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(fastest).races().run().await;
    /// # }
    /// ```
    pub fn races(mut self) -> Self {
        self.search.may_race = true;
        self
    }

    /// Expects the run to fail: it must fail without a crash, and in the same way with crashes. By default, a failed
    /// run fails the test.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).retry(2).await?) }
    /// async fn charge() -> Result<u32> { Err("the card is declined".into()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = crash_everywhere(pay).expect_failure().run().await;
    /// assert!(report.failure().unwrap().to_string().contains("the card is declined"));
    /// # }
    /// ```
    pub fn expect_failure(mut self) -> Self {
        self.search.expects_failure = true;
        self
    }

    /// Declares that this step may safely run twice, whether or not it reads its idempotency key. Silences the warning
    /// about it.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn fetch() -> Result<u32> { Ok(42) }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("fetch", fetch).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(price).idempotent("fetch").deny_warnings().run().await; // read-only
    /// # }
    /// ```
    pub fn idempotent(mut self, step: &str) -> Self {
        self.search.idempotent.push(step.to_owned());
        self
    }

    /// Declares that the calls of this step always come in the same order, so it needs no keys. Silences the warning
    /// about it.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn look() -> Result<u32> { Ok(42) }
    /// async fn poll(ctx: Ctx, _: ()) -> Result<()> {
    ///     for _ in 0..3 {
    ///         ctx.step("look", look).await?;
    ///         ctx.sleep("1 minute").await?;
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(poll).ordered("look").idempotent("look").deny_warnings().run().await;
    /// # }
    /// ```
    pub fn ordered(mut self, step: &str) -> Self {
        self.search.ordered.push(step.to_owned());
        self
    }

    /// Treats warnings as failures.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let broken = crash_everywhere(pay).deny_warnings().try_run().await.unwrap_err();
    /// assert!(broken.problem().contains("never read its idempotency key"));
    /// # }
    /// ```
    pub fn deny_warnings(mut self) -> Self {
        self.search.denies_warnings = true;
        self
    }

    /// Limits how many pairs of crashes are tried, spread evenly over all of them. Defaults to 200.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = crash_everywhere(nap).pairs(0).run().await;
    /// assert_eq!(report.schedules(), 2 * report.commits());
    /// # }
    /// ```
    pub fn pairs(self, pairs_max: usize) -> Self {
        self.bound(1, pairs_max)
    }

    /// Limits how many triples of crashes are tried, spread evenly over those that extend a pair that was tried.
    /// Defaults to none.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = crash_everywhere(nap).pairs(50).triples(50).run().await;
    /// assert_eq!(report.schedules(), 2 * report.commits() + 100);
    /// # }
    /// ```
    pub fn triples(self, triples_max: usize) -> Self {
        self.bound(2, triples_max)
    }

    fn bound(mut self, level: usize, max: usize) -> Self {
        let bounds = &mut self.search.bounds;
        bounds.resize(bounds.len().max(level + 1), 0);
        bounds[level] = max;
        self
    }

    /// Sets how long, in real time, to wait for a step body that is blocked on the outside world, such as a socket or a
    /// tokio timer. Defaults to zero: replace such a body with [`step`](Self::step), or its delay is paid in every
    /// trial.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// use std::time::Duration;
    /// async fn ask() -> Result<u32> {
    ///     tokio::time::sleep(Duration::from_millis(1)).await; // a remote service
    ///     Ok(42)
    /// }
    /// async fn asking(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("ask", ask).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(asking).pairs(0).patience(Duration::from_secs(5)).run().await;
    /// # }
    /// ```
    pub fn patience(mut self, patience: Duration) -> Self {
        self.search.plan.patience = patience;
        self
    }

    /// Runs only this schedule, as printed by a failure.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = crash_everywhere(nap).only("before 2, after 4").run().await;
    /// assert_eq!(report.schedules(), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the text is not a schedule.
    pub fn only(mut self, schedule: &str) -> Self {
        self.search.only = Some(schedule.parse().unwrap_or_else(|error| panic!("{error}")));
        self
    }

    /// Runs all trials and prints the report to stderr, which a failing test shows.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = crash_everywhere(nap).run().await;
    /// assert!(report.to_string().starts_with("crash_everywhere(nap): "));
    /// # }
    /// ```
    ///
    /// # Panics
    /// If a rule is broken; the message says which, the crashes that show it, and what happened. Also if the runtime is
    /// not tokio's current-thread one.
    #[expect(clippy::print_stderr, reason = "the test harness captures it and shows it on failure")]
    pub async fn run(self) -> Report {
        match self.try_run().await {
            Ok(report) => {
                eprintln!("{report}");
                report
            }
            Err(broken) => panic!("{broken}"),
        }
    }

    /// Like [`run`](Self::run), but returns what is broken instead of panicking.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn wait(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.wait("never").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let broken = crash_everywhere(wait).try_run().await.unwrap_err();
    /// assert!(broken.problem().starts_with("the run does not end"));
    /// # }
    /// ```
    ///
    /// # Errors
    /// The rule that is broken and how to reproduce it.
    ///
    /// # Panics
    /// If the runtime is not tokio's current-thread one.
    pub async fn try_run(self) -> Result<Report, Broken> {
        let is_current_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        assert!(is_current_thread, "crash_everywhere needs tokio's current-thread runtime; use plain `#[tokio::test]`");
        self.search.run().await
    }
}

/// Returns the last segment of a function's path, or a default if that is not a valid name.
fn short_name(path: &str) -> String {
    let last = path.rsplit("::").next().unwrap_or(path);
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_name { last.to_owned() } else { "workflow".to_owned() }
}
