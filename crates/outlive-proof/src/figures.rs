//! The figures of a tool's run: counts, time, and the command that reproduces it, stored in a file for the page.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::tools::{Lines, Order, Tool};

/// The figures of one run of one tool.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The tool's name.
    pub(crate) tool: String,
    /// Description of the tool.
    pub(crate) sentence: String,
    /// Whether this was the long form.
    pub(crate) is_long: bool,
    /// The command that reproduces the run.
    pub(crate) command: String,
    /// Labels and counts.
    pub(crate) lines: Lines,
    /// Wall-clock time in seconds.
    pub(crate) secs: f64,
    /// CPU time in seconds, of this process and its children.
    pub(crate) cpu_secs: f64,
}

impl Figures {
    /// Runs a tool, and stores its figures if it passed.
    #[expect(clippy::disallowed_methods, reason = "measures real time")]
    pub(crate) fn of(tool: Tool, order: &Order) -> Result<Self, String> {
        let (start, cpu) = (Instant::now(), cpu());
        let lines = tool.run(order)?;
        let long = if order.is_long { " --long" } else { "" };
        let count = order.count.map(|count| format!(" --count {count}")).unwrap_or_default();
        let figures = Self {
            tool: tool.name(),
            sentence: tool.sentence().to_owned(),
            is_long: order.is_long,
            command: format!("./prove {}{long}{count} --seed {}", tool.name(), order.seed),
            lines,
            secs: start.elapsed().as_secs_f64(),
            cpu_secs: (self::cpu() - cpu).as_secs_f64(),
        };
        figures.keep().map_err(|error| format!("failed to store the figures: {error}"))?;
        Ok(figures)
    }

    /// Prints the figures.
    #[expect(clippy::print_stdout, reason = "this is the output of the command")]
    pub(crate) fn tell(&self) {
        println!("{}: passed in {:.1} s ({:.1} CPU-s)", self.tool, self.secs, self.cpu_secs);
        for (what, figure) in &self.lines {
            println!("  {what}: {figure}");
        }
    }

    fn keep(&self) -> io::Result<()> {
        let form = if self.is_long { "long" } else { "short" };
        fs::create_dir_all(folder())?;
        fs::write(folder().join(format!("{}-{form}.json", self.tool)), serde_json::to_vec_pretty(self)?)
    }

    /// Reads all stored figures.
    pub(crate) fn kept() -> io::Result<Vec<Self>> {
        let mut paths: Vec<_> =
            fs::read_dir(folder())?.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?;
        paths.sort();
        paths.iter().map(|path| Ok(serde_json::from_slice(&fs::read(path)?)?)).collect()
    }
}

/// Returns the folder in which figures are stored.
fn folder() -> PathBuf {
    PathBuf::from("target/figures")
}

/// Returns the CPU time used so far by this process and the children it has waited for.
fn cpu() -> Duration {
    // Fields 14 to 17, in hundredths of a second: user and system time, own and of children.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let hundredths: u64 = fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}
