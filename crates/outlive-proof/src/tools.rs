//! The tools by name, and what each is ordered to do.

mod conformance;
mod crashes;
mod fuzz;
mod kills;
mod mutants;
mod plays;
mod pool;
mod powercut;
mod real;
mod simulate;

use clap::ValueEnum;

pub(crate) use mutants::be_mutant;

/// How much a tool is to try.
pub(crate) struct Order {
    /// The long form, run by hand.
    pub(crate) is_long: bool,
    /// Where chance begins.
    pub(crate) seed: u64,
    /// How much, instead of what the form says.
    pub(crate) count: Option<u64>,
    /// The one part of the tool that is wanted.
    pub(crate) only: Option<String>,
}

impl Order {
    /// How much to try.
    pub(crate) fn amount(&self, short: u64, long: u64) -> u64 {
        self.count.unwrap_or(if self.is_long { long } else { short })
    }
}

/// Lives as a process that is killed, if this one is asked to.
pub(crate) fn child() -> Option<std::process::ExitCode> {
    kills::run_if_asked().or_else(pool::run_if_asked).or_else(real::run_if_asked)
}

/// What a tool did: "what was counted" and "how many".
pub(crate) type Lines = Vec<(String, String)>;

/// A way to try to break a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Tool {
    Conformance,
    Crashes,
    Plays,
    Simulate,
    Mutants,
    Powercut,
    Kills,
    Pool,
    Real,
    Fuzz,
}

impl Tool {
    /// All of them, cheap ones first.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it does, in a sentence for the page.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Conformance => {
                "Every store keeps the promises of a store, case by case; two stores that are told the same answer the same."
            }
            Self::Crashes => {
                "Workflows of every shape, crashed before and after every commit, and at pairs of commits."
            }
            Self::Plays => {
                "Code that changes while runs are in flight: what a check says of it, and what a deploy then does."
            }
            Self::Simulate => {
                "Seeded worlds of several workers on one store: random programs, crashes, lost answers, zombies, skewed clocks, against an interpreter."
            }
            Self::Mutants => "Defects that were put in on purpose, each of which a tool must catch.",
            Self::Powercut => {
                "What a power cut may leave of the file, under the real SQLite store; and every I/O that can fail."
            }
            Self::Kills => {
                "Real processes that are killed at random moments, while another one keeps the ledger of what was acknowledged."
            }
            Self::Pool => "A pool whose process is killed again and again: each event is handled, and recorded once.",
            Self::Real => {
                "The real clock and real processes: deploys, downtime, kills, many messages, a second executor, many \
                 clients, and jobs of all kinds."
            }
            Self::Fuzz => "Arbitrary bytes for everything that is parsed, decoded and loaded.",
        }
    }

    /// Does it. The error says what was broken and how to see it again.
    pub(crate) fn run(self, order: &Order) -> Result<Lines, String> {
        match self {
            Self::Conformance => conformance::run(order),
            Self::Crashes => crashes::run(order),
            Self::Plays => plays::run(order),
            Self::Simulate => simulate::run(order),
            Self::Mutants => mutants::run(order),
            Self::Powercut => powercut::run(order),
            Self::Kills => kills::run(order),
            Self::Pool => pool::run(order),
            Self::Real => real::run(order),
            Self::Fuzz => fuzz::run(order),
        }
    }
}

/// Shows how far long work is, on a terminal.
pub(crate) fn bar(length: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len}  {eta}");
    let bar = indicatif::ProgressBar::new(length);
    style.map(|style| bar.set_style(style)).unwrap_or_default();
    bar
}
