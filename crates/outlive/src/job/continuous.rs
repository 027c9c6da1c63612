//! A job that runs repeatedly, on a schedule.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::failure::Failure;
use outlive_core::id::{Epoch, Name};
use outlive_core::job::{ContinuousRules, Exhausted, Rules};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::queue::PushTarget;
use outlive_core::retry::Retry;
use outlive_core::schedule::{Cron, Missed, Schedule, ScheduleError};
use outlive_core::status::Status;
use outlive_core::store::commit::{self, Answer, OnConflict, Refusal, Write};
use outlive_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::{InstanceStanding, JobClient};
use super::context::{StateCell, common_methods, terminate_method};
use super::macros::{contract, instance_methods, settings_methods};
use super::order::Order;
use super::outcome::{JobInfo, Started};
use super::stateful::{Context, TypedHandlers};
use crate::client::{Client, Contract};
use crate::error::Error;
use crate::instance::codec;
use crate::runtime::handlers::{
    CallContext, Calling, Definition, Executes, HandlerCall, Handlers, JobDefinition, JobHandler, RetryTest, Settings,
    Unfinished, Work, erase,
};

/// How long `start` waits for an instance with its id to end.
const ENDING: Duration = Duration::from_secs(10);

contract! {
    /// Names a recurring job and the type of its state.
    ///
    /// ```
    /// use outlive::job::{Continuous, ContinuousCtx};
    /// use outlive::prelude::*;
    ///
    /// const TOKENS: Continuous<String> = Continuous::new("token-refresher");
    ///
    /// async fn refresh(ctx: ContinuousCtx<String>) -> Result<()> {
    ///     ctx.set_state(format!("{}+", ctx.state()));
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").job(TOKENS.every("30 minutes").execute(refresh)).start().await?;
    /// engine.job(TOKENS).start("google", &"token".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    Continuous<S>, JobKind::Continuous,
    /// The client of a recurring job.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive::job::*;
    /// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
    /// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
    /// let beats: ContinuousClient<u32> = engine.job(BEAT);
    /// beats.start("paris", &7).await?;
    /// assert_eq!(beats.state("paris").await?, Some(7));
    /// beats.stop("paris").await?;
    /// assert_eq!(beats.status("paris").await?.status, JobStatus::Stopped);
    /// beats.terminate("paris", "moved away").await?;
    /// assert_eq!(beats.state("paris").await?, None);
    /// # Ok(()) }
    /// ```
    ContinuousClient
}

impl<S: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Continuous<S> {
    /// Runs at a fixed rate: runs start this far apart, however long they take.
    pub fn every(self, interval: impl IntoDuration) -> ContinuousBuilder<S> {
        ContinuousBuilder::new(self, Schedule::every(interval))
    }

    /// Pauses for this long after each run.
    pub fn pause_between(self, pause: impl IntoDuration) -> ContinuousBuilder<S> {
        ContinuousBuilder::new(self, Schedule::pause_between(pause))
    }

    /// Runs by the calendar, in UTC unless a [`zone`](ContinuousBuilder::zone) is given; see [`Cron`].
    pub fn cron(self, pattern: &str) -> ContinuousBuilder<S> {
        let mut builder = ContinuousBuilder::new(self, Schedule::every("1 day"));
        match Cron::new(pattern) {
            Ok(cron) => builder.cron = Some(cron),
            Err(error) => builder.settings.refuse(error),
        }
        builder.is_immediate = false;
        builder
    }
}

/// Builder for a recurring job.
#[must_use = "a job does nothing until it is registered with `.job(..)`"]
pub struct ContinuousBuilder<S, X = Unfinished> {
    contract: Continuous<S>,
    settings: Settings,
    schedule: Result<Schedule, ScheduleError>,
    cron: Option<Cron>,
    missed: Missed,
    is_immediate: bool,
    own: TypedHandlers<ContinuousCtx<S>, ()>,
    marker: PhantomData<X>,
}

impl<S> ContinuousBuilder<S> {
    fn new(contract: Continuous<S>, schedule: Result<Schedule, ScheduleError>) -> Self {
        let (settings, missed) = (Settings::default(), Missed::default());
        let own = TypedHandlers::default();
        Self { contract, settings, schedule, cron: None, missed, is_immediate: true, own, marker: PhantomData }
    }
}

impl<S: Serialize + DeserializeOwned + Clone + Send + Sync + 'static, X> ContinuousBuilder<S, X> {
    /// Sets the time zone of a cron pattern. The default is UTC.
    pub fn zone(mut self, name: &str) -> Self {
        match self.cron.take().map(|cron| cron.zone(name)) {
            Some(Ok(cron)) => self.cron = Some(cron),
            Some(Err(error)) => self.settings.refuse(error),
            None => {
                let problem =
                    format!("zone {name:?} needs a cron pattern; define the job with `cron`, or leave `zone` out");
                self.settings.refuse(Error::Setup(problem));
            }
        }
        self
    }

    /// Sets whether the first run happens when an instance starts. The default is `true`, except for a cron pattern.
    pub fn start_immediately(mut self, is_immediate: bool) -> Self {
        self.is_immediate = is_immediate;
        self
    }

    /// Sets what happens to missed ticks. By default, one run makes up for all of them.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    settings_methods!(
        "Sets when to retry after a failure. Without it there are no retries, and the schedule continues."
    );

    /// Sets the handler to call when a run is given up. The schedule then continues.
    pub fn on_error<M>(mut self, handler: impl JobHandler<(ContinuousCtx<S>, Failure), M>) -> Self {
        self.settings.policy.has_error = true;
        self.own.on_error = Some(erase(handler));
        self
    }

    /// Sets the handler that does a run.
    pub fn execute<M>(mut self, handler: impl JobHandler<(ContinuousCtx<S>,), M>) -> ContinuousBuilder<S, Executes> {
        self.own.execute = Some(erase(handler));
        let Self { contract, settings, schedule, cron, missed, is_immediate, own, .. } = self;
        ContinuousBuilder { contract, settings, schedule, cron, missed, is_immediate, own, marker: PhantomData }
    }
}

impl<S: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> JobDefinition for ContinuousBuilder<S, Executes> {
    fn definition(self) -> Result<Definition, Error> {
        let schedule = self.cron.map_or(self.schedule, |cron| Ok(cron.into()))?;
        let (missed, is_immediate) = (self.missed, self.is_immediate);
        let work = |policy| Work::Single(Rules::Continuous(ContinuousRules { policy, schedule, missed, is_immediate }));
        self.settings.finish(self.contract.job_name(), work, Arc::new(self.own))
    }
}

impl<S: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Handlers for TypedHandlers<ContinuousCtx<S>, ()> {
    fn call(&self, input: HandlerCall) -> Calling {
        self.call_one(input)
    }

    fn check(&self, state: &Payload) -> Result<(), Error> {
        codec::check::<S>("the state", state)
    }
}

/// The context that handlers of a recurring job receive.
pub struct ContinuousCtx<S>(Arc<StateCell<S>>);

impl<S> Clone for ContinuousCtx<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Serialize + DeserializeOwned + Send + Sync + 'static> Context for ContinuousCtx<S> {
    type State = S;

    fn of(inner: Arc<StateCell<S>>) -> Self {
        Self(inner)
    }
}

impl<S: Serialize + DeserializeOwned + Clone> ContinuousCtx<S> {
    fn context(&self) -> &CallContext {
        &self.0.context
    }

    /// Returns the state.
    ///
    /// # Panics
    /// Never: every instance is started with a state.
    #[must_use]
    pub fn state(&self) -> S {
        self.0.state().expect("an instance is started with a state")
    }

    /// Replaces the state. The change is kept if the handler succeeds.
    pub fn set_state(&self, state: S) {
        self.0.set(state);
    }

    /// Changes the state in place. The change is kept if the handler succeeds.
    pub fn update_state<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        self.0.update(|| unreachable!("an instance is started with a state"), change)
    }

    /// Returns the number of this run, starting at 1. A retry is not a new run.
    #[must_use]
    pub fn run_count(&self) -> u64 {
        self.context().run_count + 1
    }

    /// Returns the time this run was scheduled for, or `None` if it was [triggered](ContinuousClient::trigger).
    #[must_use]
    pub fn scheduled_at(&self) -> Option<Timestamp> {
        self.context().due
    }

    common_methods!();
    terminate_method!();
}

impl<S: Serialize + DeserializeOwned> ContinuousClient<S> {
    /// Starts an instance with a state. An existing instance keeps its own state, and resumes if it was stopped.
    ///
    /// If an instance with this id was [terminated](Self::terminate), waits up to ten seconds until it is gone.
    ///
    /// # Errors
    /// If the id or the state cannot be accepted, or the job is not registered in an engine; [`Error::NotHandled`] if
    /// an instance with this id was terminated and no process executes the store.
    pub async fn start(&self, id: &str, state: &S) -> Result<Started, Error> {
        let shared = &self.client.shared;
        let job = self.client.job()?;
        let input = self.client.encode("the state", state)?;
        self.client.check(&input)?;
        let whole = JobKind::instance(job, id)?;
        let start = || commit::StartWrite {
            deadline: None,
            parent: None,
            id: whole.clone(),
            workflow: job.clone(),
            input: input.clone(),
            origin: None,
            seed: shared.random.number(),
            tags: Default::default(),
            at: shared.clock.now(),
            due: Timestamp::AT_ONCE,
            on_conflict: OnConflict::Join,
            token: shared.random.token(),
            owner: Epoch(0),
        };
        let created = loop {
            match shared.committer.write(Write::Start(start())).await? {
                Answer::Started { created: true, .. } => break true,
                Answer::Started { .. } | Answer::Refused(Refusal::Conflict { .. }) => {}
                _ => return Err(Error::Shutdown),
            }
            match self.client.standing(id).await? {
                // It was terminated in the meantime.
                None => {}
                Some(InstanceStanding::Ending) => self.client.until_ended(id, ENDING).await?,
                Some(InstanceStanding::Goes) => break false,
                Some(InstanceStanding::Stopped) => match self.client.order(id, Message::Resume).await {
                    Err(Error::NotFound { .. }) => {}
                    told => break told.map(|()| false)?,
                },
            }
        };
        let status = self.client.instance(id).await?.map_or(Status::Pending, |instance| instance.status);
        Ok(Started { created, instance: whole.to_string(), status })
    }

    /// Runs the job once more, now. The schedule does not change.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub fn trigger(&self, id: &str) -> Order {
        self.client.order(id, Message::Trigger)
    }

    /// Stops the schedule until [`start`](Self::start). The state is kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such instance.
    pub fn stop(&self, id: &str) -> Order {
        self.client.order(id, Message::Pause)
    }

    instance_methods!(S);
}
