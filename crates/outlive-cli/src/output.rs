//! Everything that is printed: tables for people, JSON for programs, and progress bars.

pub(crate) mod counts;
pub(crate) mod entry;
pub(crate) mod escape;
pub(crate) mod job_json;
pub(crate) mod journal;
pub(crate) mod json;
pub(crate) mod json_stream;
pub(crate) mod printer;
pub(crate) mod progress;
pub(crate) mod published;
pub(crate) mod run_details;
pub(crate) mod table;
pub(crate) mod time;
