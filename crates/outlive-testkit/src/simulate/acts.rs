//! What people do to runs and tasks: starts, signals, cancels and events, each until it is acknowledged.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use outlive::{CancelAnswer, Client, Error, OnConflict, Payload, Status};
use outlive_core::commit::{Answer, Refusal, Send, Start, Write};
use outlive_core::event::Event;
use outlive_core::id::{Epoch, Name};
use outlive_core::kind::JobKind;
use outlive_core::message::Message;
use outlive_core::queue::{Place, Push};
use outlive_core::time::Timestamp;

/// What somebody wants.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Start {
        workflow: String,
        input: Payload,
    },
    Signal {
        name: String,
        value: Payload,
    },
    Cancel {
        reason: String,
    },
    /// For an instance of a task.
    Event {
        event: Payload,
    },
}

/// Something that somebody does to a run.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) run: String,
    pub(super) wish: Wish,
    /// The act that must be acknowledged before.
    pub(super) after: Option<usize>,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wish {
            Wish::Start { workflow, .. } => write!(f, "start {} of {workflow:?}", self.run),
            Wish::Signal { name, value } => write!(f, "signal {name:?} {value} to {}", self.run),
            Wish::Cancel { reason } => write!(f, "cancel {} ({reason})", self.run),
            Wish::Event { event } => write!(f, "send {event} to {}", self.run),
        }
    }
}

/// How an act was answered.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Told {
    /// It is done.
    Done,
    /// The run had ended before.
    Ended(Status),
    /// Nobody knows, or it could not be done now: it is done again.
    Again,
    /// This must not be.
    Wrong(String),
}

/// Where an act stands.
#[derive(Clone, Debug, Default)]
pub(super) enum Stand {
    #[default]
    Waiting,
    /// Somebody is at it, in this life of a worker.
    UnderWay(u64, Answers),
    Acknowledged(Told),
}

/// Where the answer to an act is put.
pub(super) type Answers = Arc<Mutex<Option<Told>>>;

impl Act {
    /// Whether doing it twice must be the same as doing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self.wish, Wish::Cancel { .. })
    }

    /// Does it by a worker's client.
    pub(super) async fn perform(self, client: Client, number: usize, answers: Answers) {
        let told = match self.ask(&client, number).await {
            Ok(told) => told,
            Err(Error::Status { status, .. }) if status.is_ended() => Told::Ended(status),
            Err(Error::Shutdown | Error::Store(_)) => Told::Again,
            Err(error) => Told::Wrong(format!("{self:?}: {error}")),
        };
        answers.lock().unwrap_or_else(PoisonError::into_inner).replace(told);
    }

    async fn ask(&self, client: &Client, number: usize) -> Result<Told, Error> {
        match &self.wish {
            Wish::Start { workflow, input } => {
                client.start_json(workflow, input.as_str()).id(&self.run).on_conflict(OnConflict::Join).await?;
                Ok(Told::Done)
            }
            Wish::Signal { name, value } => {
                let run = client.run::<serde_json::Value>(&self.run).await?;
                let value: serde_json::Value = value.decode().unwrap_or_default();
                run.signal(name, &value).dedup(&number.to_string()).await?;
                Ok(Told::Done)
            }
            Wish::Cancel { reason } => {
                let run = client.run::<serde_json::Value>(&self.run).await?;
                Ok(match run.cancel(reason).await? {
                    CancelAnswer::Ended(status) => Told::Ended(status),
                    _ => Told::Done,
                })
            }
            Wish::Event { event } => {
                let (job, id) = (JobKind::job_of(&Name::recorded(&self.run)), Name::recorded(&self.run));
                let job = client.job_by_name(job.as_str())?;
                job.send_json_once(JobKind::own_id(&id), event.as_str(), &number.to_string()).await?;
                Ok(Told::Done)
            }
        }
    }

    /// The same as a write of somebody in another process.
    pub(super) fn write(&self, number: usize, now: Timestamp, token: u64) -> Write {
        let id = Name::recorded(&self.run);
        let send = |message, dedup| Write::Send(Send { id: id.clone(), num: None, message, at: now, dedup, token });
        match &self.wish {
            Wish::Start { workflow, input } => Write::Start(Start {
                id: id.clone(),
                workflow: Name::recorded(workflow),
                input: input.clone(),
                seed: token,
                tags: std::collections::BTreeMap::new(),
                at: now,
                due: now,
                on_conflict: OnConflict::Join,
                token,
                owner: Epoch(0),
            }),
            Wish::Signal { name, value } => {
                let message = Message::Signal { name: Name::recorded(name), payload: value.clone() };
                send(message, Some(Name::recorded(&number.to_string())))
            }
            Wish::Cancel { reason } => send(Message::Cancel { reason: reason.clone() }, None),
            Wish::Event { event } => Write::Push(Push {
                id: id.clone(),
                job: JobKind::job_of(&id),
                events: vec![Event { dedup: Some(Name::recorded(&number.to_string())), ..Event::new(event.clone()) }],
                place: Place::Inbox,
                at: now,
                seed: token,
                token,
            }),
        }
    }
}

impl Told {
    /// What the store's answer means to somebody in another process.
    pub(super) fn by(answer: &Answer) -> Self {
        match answer {
            Answer::Started { .. } | Answer::Sent { .. } | Answer::Pushed { .. } => Self::Done,
            Answer::Refused(Refusal::Status(status)) if status.is_ended() => Self::Ended(*status),
            other => Self::Wrong(format!("{other:?}")),
        }
    }
}
