//! Commands about runs.

pub(super) mod ask;
pub(super) mod bulk;
pub(super) mod cancel;
pub(super) mod fork;
pub(super) mod pause;
pub(super) mod ps;
pub(super) mod purge;
pub(super) mod request;
pub(super) mod resume;
pub(super) mod retry;
pub(super) mod rewind;
pub(super) mod show;
pub(super) mod signal;
pub(super) mod start;
pub(super) mod stream;
pub(super) mod terminate;
pub(super) mod tree;
pub(super) mod value;
