//! The short form: all inputs the fuzzer has found before, and seeded mutations of them, without building anything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::{fs, thread};

use outlive_fuzz::{TARGETS, Target};

use crate::tools::{Lines, bar};

/// The longest input.
const LENGTH_MAX: usize = 256;

/// Runs every target on its corpus, and on the requested number of mutated inputs.
pub(super) fn run(executions: impl Fn(&str) -> u64 + Sync, seed: u64) -> Result<Lines, String> {
    let (left, lines) = (Mutex::new(TARGETS.to_vec()), Mutex::new(Lines::new()));
    let bar = bar(TARGETS.len() as u64);
    let work = || {
        loop {
            let Some(target) = left.lock().map_err(|error| error.to_string())?.pop() else { return Ok(()) };
            let (inputs, count) = (corpus(target.0)?, executions(target.0));
            play(target, &inputs, count, seed)?;
            bar.inc(1);
            let figure = format!("{} known inputs, {count} mutated ones", inputs.len());
            lines.lock().map_err(|error| error.to_string())?.push((format!("target {}", target.0), figure));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a worker died".to_owned())));
        ended.collect::<Result<(), String>>()
    })?;
    let mut lines = lines.into_inner().map_err(|error| error.to_string())?;
    lines.sort();
    Ok(lines)
}

/// Reads earlier findings, sorted by file name.
fn corpus(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = format!("fuzz/corpus/{target}");
    let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<_> =
        entries.map_err(|error| format!("{folder}: {error}"))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()))).collect()
}

fn play((name, run): Target, inputs: &[Vec<u8>], count: u64, seed: u64) -> Result<(), String> {
    let try_on = |bytes: &[u8]| {
        catch_unwind(AssertUnwindSafe(|| run(bytes)))
            .map_err(|_| format!("target {name} panics on {bytes:?}; add these bytes to fuzz/corpus/{name}"))
    };
    inputs.iter().try_for_each(|input| try_on(input))?;
    let mut chance = Chance(seed);
    for _ in 0..count {
        let mut bytes = chance.one_of(inputs).cloned().unwrap_or_default();
        for _ in 0..=chance.below(4) {
            change(&mut bytes, inputs, &mut chance);
        }
        bytes.truncate(LENGTH_MAX);
        try_on(&bytes)?;
    }
    Ok(())
}

/// Changes a byte, inserts one, removes some, or continues like another input.
fn change(bytes: &mut Vec<u8>, inputs: &[Vec<u8>], chance: &mut Chance) {
    let place = chance.below(bytes.len() + 1);
    match chance.below(4) {
        0 if place < bytes.len() => bytes[place] ^= 1 << chance.below(8),
        0 | 1 => bytes.insert(place, chance.byte()),
        2 => drop(bytes.drain(place..(place + chance.below(8)).min(bytes.len()))),
        _ => {
            bytes.truncate(place);
            let other = chance.one_of(inputs).map_or(&[][..], Vec::as_slice);
            bytes.extend_from_slice(&other[chance.below(other.len() + 1)..]);
        }
    }
}

/// Seeded random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn one_of<'a>(&mut self, inputs: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
        inputs.get(self.below(inputs.len()))
    }
}
