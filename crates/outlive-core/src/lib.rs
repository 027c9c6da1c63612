//! The rules of Outlive, apart from everything that could make them differ from one run to the next: no clock, no
//! randomness, no I/O and no async runtime. Time and messages are handed in; commits come out.

pub mod commit;
pub mod duration;
pub mod event;
pub mod failure;
mod fault;
pub mod id;
pub mod job;
pub mod journal;
pub mod kind;
pub mod lifecycle;
pub mod memory;
pub mod message;
#[doc(hidden)]
pub mod mutant;
pub mod page;
pub mod payload;
pub mod query;
pub mod queue;
pub mod retry;
pub mod schedule;
mod scratch;
pub mod status;
pub mod store;
pub mod sum;
pub mod throttle;
pub mod time;
pub mod touched;
pub mod workflow;
