//! Actions on runs and jobs: starts, signals, cancels and orders, each repeated until it is acknowledged.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use outlive::{CancelOutcome, Client, Error, OnConflict, Payload, Status};
use outlive_core::id::{Epoch, Name};
use outlive_core::message::Message;
use outlive_core::store::commit::{Answer, Refusal, SendWrite, StartWrite, Write};
use outlive_core::time::Timestamp;

use super::orders::Order;

/// The effect of an action.
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
    /// An order for an instance of a job.
    Job(Order),
}

impl Wish {
    /// Whether this stops (`Some(true)`) or resumes (`Some(false)`) a job, if either; `Some(None)` removes it.
    pub(super) fn is_to_stop(&self) -> Option<Option<bool>> {
        match self {
            Self::Job(Order::Tell(Message::Pause)) => Some(Some(true)),
            Self::Job(Order::Begin(_) | Order::Tell(Message::Resume)) => Some(Some(false)),
            Self::Job(Order::Tell(Message::Terminate { .. })) => Some(None),
            _ => None,
        }
    }
}

/// An action on a run or a job.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) run: String,
    pub(super) wish: Wish,
    /// The action that must be acknowledged first.
    pub(super) after: Option<usize>,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wish {
            Wish::Start { workflow, .. } => write!(f, "start {} of {workflow:?}", self.run),
            Wish::Signal { name, value } => write!(f, "signal {name:?} {value} to {}", self.run),
            Wish::Cancel { reason } => write!(f, "cancel {} ({reason})", self.run),
            Wish::Job(order) => write!(f, "{order} on {}", self.run),
        }
    }
}

/// The reply to an action.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Told {
    /// It is done.
    Done,
    /// The run had already ended.
    Ended(Status),
    /// The outcome is unknown, or it could not be done now: it is repeated.
    Again,
    /// A result that must not occur.
    Wrong(String),
}

/// The state of an action.
#[derive(Clone, Debug, Default)]
pub(super) enum Stand {
    #[default]
    Waiting,
    /// In progress, through this worker process.
    UnderWay(u64, Answers),
    Acknowledged(Told),
}

/// The slot for the reply to an action.
pub(super) type Answers = Arc<Mutex<Option<Told>>>;

impl Act {
    /// Whether doing it twice must have the same effect as doing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.wish {
            Wish::Start { .. } | Wish::Signal { .. } => true,
            Wish::Cancel { .. } => false,
            Wish::Job(order) => order.is_repeatable(),
        }
    }

    /// Performs it through a worker's client.
    pub(super) async fn perform(self, client: Client, number: usize, answers: Answers) {
        let told = match self.ask(&client, number).await {
            Ok(told) => told,
            Err(Error::Status { status, .. }) if status.is_ended() => Told::Ended(status),
            Err(Error::Shutdown | Error::Fenced { .. } | Error::Store(_)) => Told::Again,
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
                let run = client.get_run::<serde_json::Value>(&self.run).await?;
                let value: serde_json::Value = value.decode().unwrap_or_default();
                run.signal(name, &value).dedup_key(&number.to_string()).await?;
                Ok(Told::Done)
            }
            Wish::Cancel { reason } => {
                let run = client.get_run::<serde_json::Value>(&self.run).await?;
                Ok(match run.cancel(reason).await? {
                    CancelOutcome::Ended(status) => Told::Ended(status),
                    _ => Told::Done,
                })
            }
            Wish::Job(order) => order.ask(&self.run, client, number).await.map(|()| Told::Done),
        }
    }

    /// The same action as writes from another process.
    pub(super) fn writes(&self, number: usize, now: Timestamp, token: u64) -> Vec<Write> {
        let id = Name::recorded(&self.run);
        let send = |message, dedup| {
            vec![Write::Message(SendWrite { id: id.clone(), num: None, message, at: now, dedup, token })]
        };
        match &self.wish {
            Wish::Start { workflow, input } => vec![Write::Start(StartWrite {
                deadline: None,
                parent: None,
                id: id.clone(),
                workflow: Name::recorded(workflow),
                input: input.clone(),
                origin: None,
                seed: token,
                tags: std::collections::BTreeMap::new(),
                at: now,
                due: now,
                on_conflict: OnConflict::Join,
                token,
                owner: Epoch(0),
            })],
            Wish::Signal { name, value } => {
                let message = Message::Signal { name: Name::recorded(name), payload: value.clone() };
                send(message, Some(Name::recorded(&number.to_string())))
            }
            Wish::Cancel { reason } => send(Message::Cancel { reason: reason.clone() }, None),
            Wish::Job(order) => order.writes(&self.run, number, now, token),
        }
    }
}

impl Told {
    /// Interprets the store's results for an action from another process.
    pub(super) fn by(wish: &Wish, answers: &[Answer]) -> Self {
        let mut all = answers.iter().map(|answer| match (answer, wish) {
            (
                Answer::Started { .. }
                | Answer::Sent { .. }
                | Answer::Pushed { .. }
                | Answer::DeadLettersResolved { .. },
                _,
            ) => Self::Done,
            (Answer::Refused(Refusal::Status(status)), _) if status.is_ended() => Self::Ended(*status),
            // An instance that is gone needs no message.
            (Answer::Refused(Refusal::NotFound), Wish::Job(_)) => Self::Done,
            (other, _) => Self::Wrong(format!("{other:?}")),
        });
        all.find(|told| *told != Self::Done).unwrap_or(Self::Done)
    }
}
