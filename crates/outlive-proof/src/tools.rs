//! The tools by name, and the order each is given.

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

/// The settings of a tool's run.
pub(crate) struct Order {
    /// The long form, run by hand.
    pub(crate) is_long: bool,
    /// The seed for everything random.
    pub(crate) seed: u64,
    /// How much to try, instead of the amount of the chosen form.
    pub(crate) count: Option<u64>,
    /// The single part of the tool to run.
    pub(crate) only: Option<String>,
}

impl Order {
    /// Returns how much to try.
    pub(crate) fn amount(&self, short: u64, long: u64) -> u64 {
        self.count.unwrap_or(if self.is_long { long } else { short })
    }
}

/// Runs as a child process that gets killed, if this process was started as one.
pub(crate) fn child() -> Option<std::process::ExitCode> {
    kills::run_if_asked().or_else(pool::run_if_asked).or_else(real::run_if_asked)
}

/// The counts of a tool: label and figure.
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
    /// Returns all tools, cheap ones first.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns the tool's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Describes the tool in a sentence for the page.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Conformance => {
                "Every store keeps each promise of the conformance suite; two stores given the same writes return the \
                 same results."
            }
            Self::Crashes => {
                "Workflows of every shape, crashed before and after every commit, and at pairs of commits."
            }
            Self::Plays => {
                "Code that changes while runs are in flight: what a check reports, and what a deploy then does."
            }
            Self::Simulate => {
                "Seeded worlds of several workers on one store: random programs, crashes, lost replies, zombies, skewed \
                 clocks, checked against an interpreter."
            }
            Self::Mutants => "Deliberate defects, each of which a tool must catch.",
            Self::Powercut => {
                "Every state a power cut may leave the file in, under the real SQLite store, and every I/O operation \
                 that can fail."
            }
            Self::Kills => {
                "Real processes killed at random moments, while another one keeps a ledger of what was acknowledged."
            }
            Self::Pool => "A pool whose process is killed over and over: each event is handled, and recorded once.",
            Self::Real => {
                "The real clock and real processes: deploys, downtime, kills, many messages, a second executor, many \
                 clients, and jobs of all kinds."
            }
            Self::Fuzz => "Arbitrary bytes fed to everything that is parsed, decoded and loaded.",
        }
    }

    /// Runs the tool. The error says what broke and how to reproduce it.
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

/// Creates a progress bar, shown on a terminal.
pub(crate) fn bar(length: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len}  {eta}");
    let bar = indicatif::ProgressBar::new(length);
    style.map(|style| bar.set_style(style)).unwrap_or_default();
    bar
}
