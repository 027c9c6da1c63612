//! The read side: short reads on connections of their own, so that no read waits for a write.

pub(crate) mod feed;
mod lists;
pub(crate) mod output;
mod query;
pub(crate) mod queue;
pub(crate) mod threads;
mod view;

pub use view::SqliteReader;
