//! Feeds arbitrary bytes to everything that is parsed, decoded and loaded.

mod plain;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::{fs, thread};

use indicatif::{HumanCount, ProgressBar};
use outlive_fuzz::TARGETS;
use tempfile::TempDir;

use crate::tools::{Lines, Order};

/// Flags that let libFuzzer see, on a stable compiler, which code is reached and what is compared.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Executions in one round of the long form, which takes about ten seconds per target on a small machine.
const EXECUTIONS: [(&str, u64); 9] = [
    ("duration", 600_000),
    ("retry", 200_000),
    ("name", 500_000),
    ("payload", 400_000),
    ("entry", 200_000),
    ("journal", 250_000),
    ("filter", 4_000),
    ("store", 200_000),
    ("program", 6_000),
];

/// Number of rounds of the long form.
const LONG: u64 = 20;
/// The short form runs this fraction of a round.
const SHORT: u64 = 5;

/// Runs the fuzz targets. The long form is guided by coverage, for which everything is rebuilt; the short form starts
/// from earlier findings.
pub(super) fn run(order: &Order) -> Result<Lines, String> {
    if !order.is_long {
        let of = |target: &str| EXECUTIONS.iter().find(|(name, _)| *name == target).map_or(0, |(_, count)| *count);
        return plain::run(|target| of(target) * order.count.unwrap_or(1) / SHORT, order.seed);
    }
    guided(order)
}

fn guided(order: &Order) -> Result<Lines, String> {
    let programs = build()?;
    let rounds = order.count.unwrap_or(LONG);
    let (left, found) = (Mutex::new(EXECUTIONS.to_vec()), Mutex::new(Vec::new()));
    let bar = ProgressBar::new(EXECUTIONS.len() as u64);
    let work = || {
        while let Some((target, executions)) = take(&left) {
            let fuzzed = fuzz(&programs, target, executions * rounds, order.seed)?;
            bar.inc(1);
            found.lock().map_err(|error| error.to_string())?.push(fuzzed);
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())));
        ended.collect::<Result<(), String>>()
    })?;
    let found = found.into_inner().map_err(|error| error.to_string())?;
    Ok(lines(found))
}

fn take(left: &Mutex<Vec<(&'static str, u64)>>) -> Option<(&'static str, u64)> {
    left.lock().ok()?.pop()
}

/// Results of one target.
struct Fuzzed {
    target: &'static str,
    executions: u64,
    /// Edges that were reached, of all that are instrumented.
    reached: u64,
    watched: u64,
    inputs: u64,
}

fn lines(found: Vec<Fuzzed>) -> Lines {
    let total: u64 = found.iter().map(|fuzzed| fuzzed.executions).sum();
    let mut lines = vec![
        ("targets".to_owned(), found.len().to_string()),
        ("executions".to_owned(), HumanCount(total).to_string()),
        ("crashes".to_owned(), "0".to_owned()),
    ];
    for (target, _) in TARGETS {
        let ours = found.iter().filter(|fuzzed| fuzzed.target == target);
        lines.extend(ours.map(|Fuzzed { executions, reached, watched, inputs, .. }| {
            let executions = HumanCount(*executions);
            let figure = format!("{executions} executions, {reached} of {watched} edges reached, by {inputs} inputs");
            (format!("target {target}"), figure)
        }));
    }
    lines
}

/// Builds the targets separately from everything else, and returns the folder they are in.
fn build() -> Result<PathBuf, String> {
    let host = output(Command::new("rustc").arg("-vV"))?;
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not report its host")?;
    // With an explicit target, build scripts and macros are not instrumented.
    let built = output(
        Command::new("cargo")
            .args(["build", "-q", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
            .args(["--target-dir", "target/fuzz", "--target", host])
            .env("RUSTFLAGS", FLAGS),
    )?;
    if !built.status.success() {
        return Err(format!("failed to build the targets:\n{}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(Path::new("target/fuzz").join(host).join("release"))
}

fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("failed to run {}: {error}", command.get_program().to_string_lossy()))
}

/// Runs one target, starting from its corpus. New inputs are left in `target/fuzz/found`.
fn fuzz(programs: &Path, target: &'static str, executions: u64, seed: u64) -> Result<Fuzzed, String> {
    let (found, broken) = (format!("target/fuzz/found/{target}"), format!("target/fuzz/broken/{target}-"));
    let _ = fs::remove_dir_all(&found);
    let folders = [&found, "target/fuzz/broken"].map(fs::create_dir_all).into_iter().collect::<Result<(), _>>();
    let stores = folders.and_then(|()| TempDir::new()).map_err(|error| format!("failed to create {found}: {error}"))?;
    let program = programs.join(target);
    let ended = output(
        Command::new(&program)
            .args([&found, &format!("fuzz/corpus/{target}")])
            // With seed 0, libFuzzer would pick a random one.
            .args([format!("-runs={executions}"), format!("-seed={}", u32::try_from(seed).unwrap_or(u32::MAX).max(1))])
            .args(["-max_len=256", "-len_control=0", "-timeout=30", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={broken}"))
            .env("TMPDIR", stores.path())
            .env("RUST_BACKTRACE", "0"),
    )?;
    let told = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        return Err(broke(target, &program, &told));
    }
    read(target, &told).ok_or_else(|| format!("target {target} does not report its coverage:\n{told}"))
}

fn broke(target: &str, program: &Path, told: &str) -> String {
    let panic: Vec<&str> = told.lines().skip_while(|line| !line.contains("panicked at")).take(6).collect();
    let written = told.lines().find_map(|line| line.split("Test unit written to ").nth(1)).unwrap_or("INPUT");
    let panic = if panic.is_empty() { told.to_owned() } else { panic.join("\n") };
    format!("target {target} failed:\n{panic}\n  input: {written}\n  reproduce with: {} {written}", program.display())
}

/// Parses libFuzzer's final report, such as
/// `#500000 DONE   cov: 675 ft: 1752 corp: 553/17Kb lim: 1024 exec/s: 81924 rss: 29Mb`.
fn read(target: &'static str, told: &str) -> Option<Fuzzed> {
    let words: Vec<&str> = told.lines().rfind(|line| line.contains(" cov: "))?.split_whitespace().collect();
    let after = |label: &str| words.iter().skip_while(|word| **word != label).nth(1).copied();
    let number = |text: &str| text.parse::<u64>().ok();
    let counters = told.lines().find(|line| line.contains("inline 8-bit counters"))?.split('(').nth(1)?;
    let executions = told.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    Some(Fuzzed {
        target,
        executions: number(executions.trim())?,
        reached: number(after("cov:")?)?,
        watched: number(counters.split_whitespace().next()?)?,
        inputs: number(after("corp:")?.split('/').next()?)?,
    })
}
