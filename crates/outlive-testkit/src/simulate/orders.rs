//! Orders for jobs, given through a worker's client or from another process.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlive::job::{Continuous, Debounce, Push as Pushing, WorkerPool};
use outlive::{Client, Error, OnConflict, Payload};
use outlive_core::event::Event;
use outlive_core::id::{Epoch, Name};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::queue::{PushTarget, PushWrite, ResolveDeadLetters, WhichDeadLetters};
use outlive_core::store::commit::{SendWrite, StartWrite, Write};
use outlive_core::time::Timestamp;
use serde_json::Value;

/// The id of the single instance of a pool.
const MAIN: &str = "main";

/// An order for a job instance.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Sends an event to a task, with its own key.
    Send(Payload),
    /// Adds an event to a debounce, optionally with a key.
    Add(Payload, Option<String>),
    /// Pushes events to a pool.
    Push(Vec<Pushed>),
    /// Starts or resumes a continuous job.
    Begin(Payload),
    Tell(Message),
    /// Retries all dead letters of the job.
    RetryDead,
}

/// An event for a pool.
#[derive(Clone, Debug)]
pub(super) struct Pushed {
    pub(super) payload: Payload,
    pub(super) priority: i32,
    pub(super) key: Option<String>,
    pub(super) delay: Option<Duration>,
    pub(super) once: Option<String>,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(event) => write!(f, "send {event}"),
            Self::Add(event, None) => write!(f, "add {event}"),
            Self::Add(event, Some(key)) => write!(f, "add {event} once as {key:?}"),
            Self::Push(events) => {
                write!(f, "push")?;
                events.iter().try_for_each(|event| write!(f, " {}", event.payload))
            }
            Self::Begin(state) => write!(f, "start with {state}"),
            Self::Tell(message) => write!(f, "send {message:?}"),
            Self::RetryDead => write!(f, "retry the dead letters"),
        }
    }
}

/// Returns the full name of a pool's instance.
pub(super) fn pool_instance(job: &str) -> String {
    format!("{job}:{MAIN}")
}

impl Order {
    /// Whether doing it twice has the same effect as doing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Add(_, Some(_)) | Self::Begin(_))
    }

    /// Whether it brings an event to handle, rather than deciding what happens to it.
    pub(super) fn is_event(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Add(..) | Self::Push(_))
    }

    /// Performs the order through a worker's client. An instance that is gone needs no message.
    pub(super) async fn ask(&self, instance: &str, client: &Client, number: usize) -> Result<(), Error> {
        let id = Name::recorded(instance);
        let (job, own) = (JobKind::job_of(&id), JobKind::own_id(&id));
        let name = lasting(job.as_str().split_once(':').map_or("", |(_, name)| name));
        let any = client.job_by_name(job.as_str())?;
        let (batch, beat) = (Debounce::<Value, Value>::new(name), Continuous::<Value>::new(name));
        match self {
            Self::Send(event) => any.send_json(own, event.as_str()).dedup_key(&number.to_string()).await.map(drop),
            Self::Add(event, None) => client.job(batch).add(own, &value(event)).await.map(drop),
            Self::Add(event, Some(key)) => client.job(batch).add(own, &value(event)).dedup_key(key).await.map(drop),
            Self::Push(events) => {
                let pool = client.job(WorkerPool::<Value>::new(name));
                pool.push_many(events.iter().map(Pushed::to_push)).await.map(drop)
            }
            Self::Begin(state) => client.job(beat).start(own, &value(state)).await.map(drop),
            Self::RetryDead => any.retry_dead().await.map(drop),
            Self::Tell(message) => match tell(client, JobKind::of(&id), (name, own), message).await {
                Err(Error::NotFound { .. }) => Ok(()),
                told => told,
            },
        }
    }

    /// The same order as writes from another process.
    pub(super) fn writes(&self, instance: &str, number: usize, now: Timestamp, token: u64) -> Vec<Write> {
        let id = Name::recorded(instance);
        let job = JobKind::job_of(&id);
        let push = |events, place| {
            let (id, job) = (id.clone(), job.clone());
            vec![Write::Push(PushWrite { id, job, events, place, at: now, seed: token, token })]
        };
        let send = |message| {
            let (id, token) = (id.clone(), token.wrapping_add(1));
            Write::Message(SendWrite { id, num: None, message, at: now, dedup: None, token })
        };
        let keyed = |event: &Payload, key: Option<String>| {
            vec![Event { dedup: key.as_deref().map(Name::recorded), ..Event::new(event.clone()) }]
        };
        match self {
            Self::Send(event) => push(keyed(event, Some(number.to_string())), PushTarget::Inbox),
            Self::Add(event, key) => push(keyed(event, key.clone()), PushTarget::Inbox),
            Self::Push(events) => push(events.iter().map(|event| event.to_event(now)).collect(), PushTarget::Queue),
            Self::Begin(state) => {
                let start = StartWrite {
                    deadline: None,
                    parent: None,
                    input: state.clone(),
                    id: id.clone(),
                    workflow: job.clone(),
                    origin: None,
                    seed: token,
                    tags: std::collections::BTreeMap::new(),
                    at: now,
                    due: Timestamp::AT_ONCE,
                    on_conflict: OnConflict::Join,
                    token,
                    owner: Epoch(0),
                };
                vec![Write::Start(start), send(Message::Resume)]
            }
            Self::Tell(message) => vec![send(message.clone())],
            Self::RetryDead => vec![Write::ResolveDeadLetters(ResolveDeadLetters {
                job,
                which: WhichDeadLetters::All,
                is_retry: true,
                at: now,
            })],
        }
    }
}

async fn tell(
    client: &Client,
    kind: Option<JobKind>,
    (name, id): (&'static str, &str),
    message: &Message,
) -> Result<(), Error> {
    let (beat, batch) = (Continuous::<Value>::new(name), Debounce::<Value, Value>::new(name));
    let (beat, batch) = (client.job(beat), client.job(batch));
    let pool = client.job(WorkerPool::<Value>::new(name));
    match (kind, message) {
        (Some(JobKind::Pool), Message::Pause) => pool.pause().await,
        (Some(JobKind::Pool), _) => pool.resume().await,
        (Some(JobKind::Continuous), Message::Pause) => beat.stop(id).await,
        (Some(JobKind::Continuous), Message::Trigger) => beat.trigger(id).await,
        (Some(JobKind::Continuous), Message::Terminate { reason }) => beat.terminate(id, reason).await,
        (Some(JobKind::Debounce), Message::Trigger) => batch.flush(id).await,
        (Some(JobKind::Debounce), Message::Clear) => batch.clear(id).await,
        (Some(kind), message) => {
            let any = client.job_by_name(&format!("{}:{name}", kind.as_str()))?;
            match message {
                Message::Terminate { reason } => any.terminate(id, reason).await,
                _ => any.trigger(id).await,
            }
        }
        (None, _) => Err(Error::JobName { name: name.to_owned() }),
    }
}

impl Pushed {
    fn to_push(&self) -> Pushing<Value> {
        let push = Pushing::new(value(&self.payload)).priority(self.priority);
        let push = self.key.iter().fold(push, |push, key| push.lane(key));
        let push = self.once.iter().fold(push, |push, key| push.dedup_key(key));
        self.delay.iter().fold(push, |push, delay| push.delay(*delay))
    }

    fn to_event(&self, now: Timestamp) -> Event {
        let name = |text: &Option<String>| text.as_deref().map(Name::recorded);
        Event {
            priority: self.priority,
            key: name(&self.key),
            due: self.delay.map(|delay| now.after(delay)),
            dedup: name(&self.once),
            ..Event::new(self.payload.clone())
        }
    }
}

fn value(payload: &Payload) -> Value {
    payload.decode().unwrap_or_default()
}

/// Returns the same name with a static lifetime, which job definitions require. Each name is leaked once.
fn lasting(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(name) {
        return name;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}
