//! The engine as its users see it, in virtual time unless a test says otherwise.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod cancel;
mod changed_code;
mod checking;
mod checking_children;
mod checking_live;
mod checking_repeats;
mod children;
mod children_crashes;
mod children_deploys;
mod children_store;
mod compile;
mod crashes;
mod deadlines;
mod driving;
mod due;
mod events;
mod exporting;
mod family;
mod foreign;
mod ids;
mod input;
mod job_ends;
mod jobs_clock;
mod jobs_continuous;
mod jobs_crashes;
mod jobs_deadly;
mod jobs_debounce;
mod jobs_durable;
mod jobs_errors;
mod jobs_input;
mod jobs_kit;
mod jobs_pool;
mod jobs_store;
mod jobs_stuck;
mod jobs_task;
mod jobs_values;
mod kit_on_sqlite;
mod layers;
mod logs;
#[cfg(feature = "metrics")]
mod metrics;
mod old_names;
mod owners;
mod panics;
mod parked;
mod patches;
mod places;
mod plays;
mod programs;
mod progress;
mod providing;
mod recovery;
mod retrying_runs;
mod seed;
mod service;
mod shapes;
mod signals;
#[cfg(feature = "http")]
mod sink;
mod store_trouble;
mod support;
mod time;
#[cfg(feature = "opentelemetry")]
mod traces;
mod versions;
mod waiting;
