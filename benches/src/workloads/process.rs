//! Workloads about a whole process: recovery after a kill, memory, idling, lists, and a long soak.

pub(crate) mod idle;
pub(crate) mod kill_and_resume;
pub(crate) mod kills;
pub(crate) mod lists;
pub(crate) mod resident;
pub(crate) mod sleeping_runs;
pub(crate) mod soak;
pub(crate) mod waiters;
