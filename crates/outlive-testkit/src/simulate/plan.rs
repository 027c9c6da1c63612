//! The description of a world, as built by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outlive::{BoxError, Builder, Payload, StepCall};
use outlive_core::id::Name;
use serde::Serialize;

use crate::hook::Mock;
use crate::random::Random;

use super::acts::{Act, Wish};
use super::end::End;
use super::orders::Order;

type Setup = Box<dyn Fn(Builder) -> Builder + Send + Sync>;
type Check = Box<dyn Fn(&End) -> Result<(), String> + Send + Sync>;

/// The description of a world for one seed. See [`simulate`](fn@crate::simulate).
///
/// ```
/// use outlive_testkit::{Sim, simulate};
/// # use outlive::prelude::*;
/// async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
/// fn world(sim: &mut Sim) {
///     sim.engine(|engine| engine.workflow("approve", approve));
///     sim.start("approve", "order-1", &());
///     sim.signal("order-1", "approval", &true);
///     if sim.below(4) == 0 {
///         sim.cancel("order-1", "no longer wanted");
///     }
/// }
/// simulate(0..20, world);
/// ```
pub struct Sim {
    seed: u64,
    random: Random,
    setups: Vec<Setup>,
    pub(super) mocks: BTreeMap<String, Mock>,
    pub(super) acts: Vec<Act>,
    checks: Vec<Check>,
    pub(super) workers: usize,
    pub(super) faults_max: u64,
    pub(super) skew_max_ms: i64,
    /// The first mistake in the description.
    pub(super) problem: Option<String>,
}

impl Sim {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random::new(seed ^ 0x6f75_746c_6976_6521),
            setups: Vec::new(),
            mocks: BTreeMap::new(),
            acts: Vec::new(),
            checks: Vec::new(),
            workers: 2,
            faults_max: 6,
            skew_max_ms: 60_000,
            problem: None,
        }
    }

    /// Configures every engine of this world; called again for each process of each worker.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// simulate(0..3, |sim| sim.engine(|engine| engine.workflow("double", double)));
    /// ```
    pub fn engine(&mut self, setup: impl Fn(Builder) -> Builder + Send + Sync + 'static) {
        self.setups.push(Box::new(setup));
    }

    /// Starts a run at some moment.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// simulate(0..3, |sim| {
    ///     sim.engine(|engine| engine.workflow("double", double));
    ///     sim.start("double", "a", &21);
    ///     sim.check(|end| if end.runs["a"].output() == Some(42) { Ok(()) } else { Err("not 42".into()) });
    /// });
    /// ```
    pub fn start<T: Serialize + ?Sized>(&mut self, workflow: &str, id: &str, input: &T) {
        if self.acts.iter().any(|act| act.run == id) {
            self.wrong(format!("run {id:?} is started twice; give each run of a world its own id"));
        }
        let input = self.encode("input", input);
        self.acts.push(Act {
            run: id.to_owned(),
            wish: Wish::Start { workflow: workflow.to_owned(), input },
            after: None,
        });
    }

    /// Signals a run at some moment after its start, possibly more than once with the same dedup key. Signals to one
    /// run are sent in the order of these calls.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// async fn sum(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let one: u32 = ctx.wait("n").await?;
    ///     let two: u32 = ctx.wait("n").await?;
    ///     Ok(one * 10 + two)
    /// }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.workflow("sum", sum));
    ///     sim.start("sum", "a", &());
    ///     sim.signal("a", "n", &4);
    ///     sim.signal("a", "n", &2);
    ///     sim.check(|end| if end.runs["a"].output() == Some(42) { Ok(()) } else { Err("out of order".into()) });
    /// });
    /// ```
    pub fn signal<T: Serialize + ?Sized>(&mut self, id: &str, name: &str, value: &T) {
        let value = self.encode("signal", value);
        let after = self.last(id, |wish| !matches!(wish, Wish::Cancel { .. }));
        self.acts.push(Act { run: id.to_owned(), wish: Wish::Signal { name: name.to_owned(), value }, after });
    }

    /// Cancels a run at some moment after its start.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.workflow("nap", nap));
    ///     sim.start("nap", "a", &());
    ///     sim.cancel("a", "wake up"); // once accepted, the run must end as cancelled: that is always checked
    /// });
    /// ```
    pub fn cancel(&mut self, id: &str, reason: &str) {
        let after = self.last(id, |wish| matches!(wish, Wish::Start { .. }));
        self.acts.push(Act { run: id.to_owned(), wish: Wish::Cancel { reason: reason.to_owned() }, after });
    }

    /// Replaces the body of a step: every attempt returns the result of `fake`.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// async fn charge() -> Result<u32> { Err("this charges real money".into()) }
    /// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// simulate(0..20, |sim| {
    ///     sim.engine(|engine| engine.workflow("pay", pay));
    ///     sim.step("charge", |_call| Ok::<_, BoxError>(42));
    ///     sim.start("pay", "a", &());
    ///     sim.check(|end| if end.runs["a"].output() == Some(42) { Ok(()) } else { Err("not paid".into()) });
    /// });
    /// ```
    pub fn step<T: Serialize, E: Into<BoxError>>(
        &mut self,
        name: &str,
        fake: impl Fn(&StepCall<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) {
        let mock = move |call: &StepCall<'_>| Ok(Payload::encode(&fake(call).map_err(Into::into)?)?);
        self.mocks.insert(name.to_owned(), Arc::new(mock));
    }

    /// Adds a check of the final state, in addition to what is always checked.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::simulate;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// simulate(0..3, |sim| {
    ///     sim.engine(|engine| engine.workflow("double", double));
    ///     sim.start("double", "a", &21);
    ///     sim.check(|end| match end.runs["a"].output::<u32>() {
    ///         Some(42) => Ok(()),
    ///         other => Err(format!("twice 21 is {other:?}")),
    ///     });
    /// });
    /// ```
    pub fn check(&mut self, check: impl Fn(&End) -> Result<(), String> + Send + Sync + 'static) {
        self.checks.push(Box::new(check));
    }

    /// Sets the largest number of workers. Defaults to 2.
    ///
    /// ```
    /// # use outlive_testkit::simulate;
    /// simulate(0..3, |sim| sim.workers(3));
    /// ```
    pub fn workers(&mut self, workers: usize) {
        self.workers = workers.max(1);
    }

    /// Sets the largest number of faults. Defaults to 6.
    ///
    /// ```
    /// # use outlive_testkit::simulate;
    /// simulate(0..3, |sim| sim.faults(0)); // only the order of events is random
    /// ```
    pub fn faults(&mut self, faults_max: u64) {
        self.faults_max = faults_max;
    }

    /// Sets how far a worker's clock may be off the world's. Defaults to one minute.
    ///
    /// ```
    /// # use outlive_testkit::simulate;
    /// simulate(0..3, |sim| sim.skew(std::time::Duration::from_secs(3600)));
    /// ```
    pub fn skew(&mut self, skew_max: Duration) {
        self.skew_max_ms = i64::try_from(skew_max.as_millis()).unwrap_or(i64::MAX / 4);
    }

    /// Returns a random number from 0 up to but not including `end`, the same for the same seed.
    ///
    /// ```
    /// # use outlive_testkit::simulate;
    /// simulate(0..3, |sim| assert!(sim.below(6) < 6));
    /// ```
    pub fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end.max(1)
    }

    /// Returns the seed of this world.
    ///
    /// ```
    /// # use outlive_testkit::simulate;
    /// simulate(7..8, |sim| assert_eq!(sim.seed(), 7));
    /// ```
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    // ---- for the world ----

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    pub(crate) fn random_mut(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(super) fn set_up(&self, builder: Builder) -> Builder {
        self.setups.iter().fold(builder, |builder, setup| setup(builder))
    }

    /// Returns the job instances that actions refer to.
    pub(super) fn jobs(&self) -> BTreeSet<Name> {
        let is_job = |act: &&Act| matches!(act.wish, Wish::Job(_));
        self.acts.iter().filter(is_job).map(|act| Name::recorded(&act.run)).collect()
    }

    /// Whether some job recurs.
    pub(super) fn is_endless(&self) -> bool {
        self.acts.iter().any(|act| matches!(act.wish, Wish::Job(Order::Begin(_))))
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Name> {
        self.acts.iter().filter(|act| matches!(act.wish, Wish::Start { .. })).map(|act| Name::recorded(&act.run))
    }

    pub(super) fn check_all(&self, end: &End) -> Result<(), String> {
        self.checks.iter().try_for_each(|check| check(end))
    }

    fn last(&mut self, id: &str, is_before: impl Fn(&Wish) -> bool) -> Option<usize> {
        let last = self.acts.iter().rposition(|act| act.run == id && is_before(&act.wish));
        if last.is_none() {
            self.wrong(format!("run {id:?} is not started; call `sim.start(..)` for it first"));
        }
        last
    }

    pub(super) fn encode<T: Serialize + ?Sized>(&mut self, what: &str, value: &T) -> Payload {
        Payload::encode(value).unwrap_or_else(|error| {
            self.wrong(format!("the {what} cannot be serialized: {error}"));
            Payload::recorded("null")
        })
    }

    pub(super) fn wrong(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}
