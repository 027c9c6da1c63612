//! Crashes a workflow everywhere: before and after every commit, and at pairs of them, in memory and in virtual time.

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
pub use ledger::{Effect, Ledger};
pub use report::{Broken, Report};
pub use warning::{Warning, WarningKind};

use search::Search;
use stage::{Kind, Message, Plan, Setup};

/// How many pairs of crashes are played, unless said otherwise.
const PAIRS_MAX: usize = 200;

/// Crashes a workflow everywhere, and checks that nobody can tell.
///
/// The workflow is played once without a crash. Then it is played again for each commit, with the process dying before
/// it, and after it, and coming back; then for pairs of such crashes. All of it is in memory and in virtual time. After
/// each play these must hold, without a word from you:
///
/// - without a crash, the run completes (unless it is [expected to fail](CrashEverywhere::expect_failure), or
///   [cancelled](CrashEverywhere::cancel_at));
/// - with crashes, it ends, and its outcome is the one without a crash (unless it [races](CrashEverywhere::races));
/// - a step whose end is recorded never runs again, nor does an attempt whose failure is;
/// - no step runs more often than without a crash and once more for each crash, and none goes missing;
/// - a step that may run at most once does, and if a crash has interrupted it, the run goes on and completes, always in
///   the same way;
/// - a replay of the journal asks for the same and ends the same, at every quiet point and at the end.
///
/// What must hold of your steps is said with [`invariant`](CrashEverywhere::invariant). What should be looked at is in the
/// report as [warnings](Report::warnings): steps that ran twice and never asked for their idempotency key, and steps that
/// one place calls several times without a key. The report says how the run ended, too.
///
/// A crash here is not the end of a real process: statics keep their values, and so does whatever is behind an `Arc` that
/// was made outside. Memory that is to die with the process is made with [`provide_with`](CrashEverywhere::provide_with).
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
/// Needs tokio's current-thread runtime, as `#[tokio::test]` is. A workflow that uses `tokio::select!` between branches
/// that are ready at once is not the same each time, because the macro tosses a coin; a failing schedule of such a
/// workflow may have to be repeated more than once.
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

/// A workflow that is about to be crashed everywhere, made by [`crash_everywhere`].
///
/// ```
/// use outlive_testkit::crash_everywhere;
/// use outlive_testkit::crashes::CrashEverywhere;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// /// As all of our tests do it.
/// fn strictly(crashes: CrashEverywhere<u32>) -> CrashEverywhere<u32> { crashes.pairs(1_000).deny_warnings() }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// strictly(crash_everywhere(double).input(&21)).run().await;
/// # }
/// ```
#[must_use = "nothing is crashed until it is run"]
pub struct CrashEverywhere<I> {
    search: Search,
    input: PhantomData<fn(I)>,
}

impl<I: Serialize> CrashEverywhere<I> {
    /// What the workflow is started with; needed unless it takes `()`.
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
    /// If the input does not serialise.
    pub fn input(mut self, input: &I) -> Self {
        self.search.plan.input =
            Payload::encode(input).unwrap_or_else(|error| panic!("the input does not serialise: {error}"));
        self
    }
}

impl<I> CrashEverywhere<I> {
    /// A signal that is sent as soon as the run is started. Who sends it repeats it until somebody has it.
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
    /// If the value does not serialise.
    pub fn signal<T: Serialize + ?Sized>(self, name: &str, value: &T) -> Self {
        self.signal_at(Duration::ZERO, name, value)
    }

    /// A signal that is sent so long after the start, in virtual time.
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
    /// If the text is no duration, or the value does not serialise.
    pub fn signal_at<T: Serialize + ?Sized>(self, after: impl IntoDuration, name: &str, value: &T) -> Self {
        let value = serde_json::value::to_raw_value(value)
            .unwrap_or_else(|error| panic!("the value of signal {name:?} does not serialise: {error}"));
        self.message(after, Kind::Signal { name: name.to_owned(), value })
    }

    /// A cancel that is sent so long after the start, in virtual time.
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
    /// If the text is no duration.
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

    /// Every attempt of a step gives what `fake` says, instead of running its body.
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

    /// What the workflow gets from its context, the same in every life of every play: what is behind an `Arc` in it
    /// survives all crashes. What changes is made with [`provide_with`](Self::provide_with) if it dies with the process, and
    /// with [`world`](Self::world) if it does not.
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

    /// What the workflow gets from its context, made again in each life of the process: memory, which a crash empties.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// use std::sync::Mutex;
    /// #[derive(Default)]
    /// struct Cache(Mutex<Option<u32>>); // as any memory, it is empty after a crash
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

    /// What else the engine needs. It is called in each life of the process: what it makes dies with the process.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(double).input(&21).setup(|engine| engine.payload_max(1024)).run().await;
    /// # }
    /// ```
    pub fn setup(mut self, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.search.plan.setups.push(Arc::new(setup));
        self
    }

    /// What is outside of the process, and outlives it: a bank, a file, a mail server. It is made once for each play, and
    /// provided to each life as a clone, which shares what is behind an `Arc`. [Invariants](Self::invariant) see it too.
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
    ///         bank.0.lock().unwrap().insert(attempt.idempotency_key().to_owned()); // a second one changes nothing
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

    /// What must hold after each play, whatever crashed.
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

    /// A crash may change the outcome, because the workflow races. Then the outcome is not compared with the one without a
    /// crash; that a replay of the journal gives the same is still checked, and all the rest.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn ask(name: &str) -> Result<String> { Ok(name.to_owned()) }
    /// async fn fastest(ctx: Ctx, _: ()) -> Result<String> {
    ///     tokio::select! {
    ///         biased;
    ///         one = ctx.step("ask one", || ask("one")) => Ok(one?),
    ///         other = ctx.step("ask other", || ask("other")) => Ok(other?), // after a crash, it may be the first
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

    /// The run is to fail: without a crash, it must, and with crashes it must fail in the same way. Unless said so, a run
    /// that fails is a failure of the test.
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

    /// This step may run twice without harm, whether or not it asks for its idempotency key: no warning for it.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn fetch() -> Result<u32> { Ok(42) }
    /// async fn price(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("fetch", fetch).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// crash_everywhere(price).idempotent("fetch").deny_warnings().run().await; // it only reads
    /// # }
    /// ```
    pub fn idempotent(mut self, step: &str) -> Self {
        self.search.idempotent.push(step.to_owned());
        self
    }

    /// The calls of this step come in the same order each time, so it needs no keys: no warning for it.
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

    /// A warning is a failure.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let broken = crash_everywhere(pay).deny_warnings().try_run().await.unwrap_err();
    /// assert!(broken.problem().contains("never asked for its idempotency key"));
    /// # }
    /// ```
    pub fn deny_warnings(mut self) -> Self {
        self.search.denies_warnings = true;
        self
    }

    /// How many pairs of crashes are played at the most, evenly over all there are; 200 unless said otherwise.
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

    /// How many triples of crashes are played at the most, evenly over those that go on from a pair that was played; none
    /// unless said otherwise.
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

    /// How long, in real time, a body is waited for that waits for the outside world: a socket, a tokio timer. No time
    /// unless said otherwise: a fake stands for such a body, or it is slow many times over.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::crash_everywhere;
    /// use std::time::Duration;
    /// async fn ask() -> Result<u32> {
    ///     tokio::time::sleep(Duration::from_millis(1)).await; // somebody out there
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

    /// Plays this schedule alone: the one that a failure has told.
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
    /// If the text is no schedule.
    pub fn only(mut self, schedule: &str) -> Self {
        self.search.only = Some(schedule.parse().unwrap_or_else(|error| panic!("{error}")));
        self
    }

    /// Does it, and tells the report on stderr, which a test shows if it fails.
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
    /// If something is broken: with what it is, the crashes that show it, and what happened. Also if the runtime is not
    /// tokio's current-thread one.
    #[expect(clippy::print_stderr, reason = "a test keeps it until somebody wants to see it")]
    pub async fn run(self) -> Report {
        match self.try_run().await {
            Ok(report) => {
                eprintln!("{report}");
                report
            }
            Err(broken) => panic!("{broken}"),
        }
    }

    /// As [`run`](Self::run), for those who want to look at what is broken.
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
    /// What is broken.
    ///
    /// # Panics
    /// If the runtime is not tokio's current-thread one.
    pub async fn try_run(self) -> Result<Report, Broken> {
        let is_current_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        assert!(is_current_thread, "crash_everywhere needs tokio's current-thread runtime, as `#[tokio::test]` is");
        self.search.run().await
    }
}

/// The last part of a function's path, if it can be a name.
fn short_name(path: &str) -> String {
    let last = path.rsplit("::").next().unwrap_or(path);
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_name { last.to_owned() } else { "workflow".to_owned() }
}
