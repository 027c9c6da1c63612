//! Commands about a whole store, and about the disk it would be on.

pub(super) mod bench;
pub(super) mod check;
pub(super) mod compact;
pub(super) mod doctor;
pub(super) mod events;
pub(super) mod export;
