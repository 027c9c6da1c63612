//! What a tool's run came to: counts, time, and the command that repeats it, kept in a file for the page.

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
    /// What it does.
    pub(crate) sentence: String,
    /// Whether this was the long form.
    pub(crate) is_long: bool,
    /// Repeats it.
    pub(crate) command: String,
    /// What was counted, and how many.
    pub(crate) lines: Lines,
    /// Time on the wall.
    pub(crate) secs: f64,
    /// Time of all cores, of this process and of those it started.
    pub(crate) cpu_secs: f64,
}

impl Figures {
    /// Runs a tool, and keeps what it came to if it passed.
    #[expect(clippy::disallowed_methods, reason = "how long a tool took is a matter of real time")]
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
        figures.keep().map_err(|error| format!("the figures could not be kept: {error}"))?;
        Ok(figures)
    }

    /// Says it to people.
    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
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

    /// All that are kept.
    pub(crate) fn kept() -> io::Result<Vec<Self>> {
        let mut paths: Vec<_> =
            fs::read_dir(folder())?.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?;
        paths.sort();
        paths.iter().map(|path| Ok(serde_json::from_slice(&fs::read(path)?)?)).collect()
    }
}

/// Where figures are kept.
fn folder() -> PathBuf {
    PathBuf::from("target/proof")
}

/// The time of all cores that this process and those it has waited for have used so far.
fn cpu() -> Duration {
    // Fields 14 to 17 after the name, in hundredths of a second: user and system, own and of children.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let hundredths: u64 = fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}
