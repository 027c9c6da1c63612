//! Runs all tools as separate processes, a few at a time, as some mostly wait.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, thread};

use crate::tools::Tool;

/// How many tools run at once. The one on the real clock is mostly idle, and the others do not always use all cores.
const LANES: usize = 3;

/// Runs every tool with the given options and prints each result as it ends. Returns `true` if all passed.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the output of the command")]
pub(crate) fn run_all(options: &[String]) -> bool {
    let mut tools = Tool::all();
    // The slowest first, so that no lane ends long after the others.
    tools.sort_by_key(|tool| !matches!(tool, Tool::Real | Tool::Mutants | Tool::Powercut));
    let (tools, has_failed, telling) = (Mutex::new(tools.into_iter()), AtomicBool::new(false), Mutex::new(()));
    let next = || tools.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(tool) = next() {
                    let ended = run(tool, options);
                    let _telling = telling.lock();
                    match ended {
                        Ok(told) => print!("{told}"),
                        Err(told) => {
                            has_failed.store(true, Ordering::Relaxed);
                            eprint!("{told}");
                        }
                    }
                }
            });
        }
    });
    !has_failed.into_inner()
}

/// Runs one tool, and returns its output.
fn run(tool: Tool, options: &[String]) -> Result<String, String> {
    let failed = |problem: String| format!("{tool:?} FAILED: {problem}\n");
    let this = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let ended = Command::new(this).arg(tool.name()).args(options).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = text(&ended.stdout) + &text(&ended.stderr);
    if ended.status.success() { Ok(told) } else { Err(failed(format!("{}\n{told}", ended.status))) }
}
