//! The deterministic rules of Outlive: no clock, no randomness, no I/O and no async runtime. Callers pass in the time
//! and the messages and get commits back.

pub mod checksum;
pub mod child;
pub mod duration;
pub mod event;
pub mod failure;
pub mod id;
pub mod job;
pub mod journal;
pub mod kind;
pub mod lifecycle;
pub mod message;
pub mod origin;
pub mod output;
pub mod payload;
pub mod queue;
pub mod restart;
pub mod retry;
pub mod schedule;
mod scratch;
mod small_map;
pub mod status;
pub mod store;
pub mod throttle;
pub mod time;
pub mod workflow;
