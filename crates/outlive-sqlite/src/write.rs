//! The write side: one thread owns the writing connection and applies batches, each in one transaction.
//!
//! Every kind of write has a file with a function `apply`, which makes all its checks before its first statement. The
//! files `state`, `inbox`, `queue`, `carried` and `feed` are what several kinds share.

mod apply;
mod batch;
mod cache;
mod carried;
mod checkpoint;
mod claim;
mod commit;
mod dead_letters;
mod expire;
mod family;
mod feed;
mod fork;
mod inbox;
mod lease;
mod message;
mod output;
mod past;
mod purge;
mod push;
mod queue;
mod reopen;
mod rewind;
mod start;
mod state;
mod turn;
mod writer;

pub(crate) use writer::{ReplyTo, Writer, WriterRequest};
