//! The workloads behind every performance claim; see `benches/README.md`.

#![expect(clippy::disallowed_methods, reason = "it measures real time")]

mod all;
mod bar;
mod child;
mod command;
mod crowd;
mod curves;
mod figures;
mod floor;
mod idle;
mod j1;
mod j2;
mod j3;
mod j4;
mod jobs;
mod kills;
mod lists;
mod load;
mod machine;
mod notes;
mod numbers;
mod page;
mod plot;
mod resident;
mod setup;
mod sink;
mod soak;
mod steps;
mod targets;
mod usage;
mod w1;
mod w10;
mod w2;
mod w3;
mod w4;
mod w5;
mod w6;
mod w7;
mod w8;
mod w9;
mod waiters;

pub use command::{main, measure_w1, measure_w2};
pub use figures::Figures;
