//! What step bodies really did: a line in a file each time one begins, by whichever process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use outlive::Attempt;

/// The ledger as a worker writes it.
pub(super) struct Effects {
    file: File,
    /// Which worker process this is.
    generation: u64,
}

/// One time a step's body began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Effect {
    /// Where its line begins in the ledger.
    pub(super) offset: u64,
    pub(super) generation: u64,
    pub(super) attempt: u32,
    /// The same for all attempts of a step in a run.
    pub(super) key: String,
}

/// The effects of a store by run and step.
pub(super) type ByStep = BTreeMap<(String, String), Vec<Effect>>;

pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join("effects")
}

impl Effects {
    pub(super) fn open(folder: &Path, generation: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path_in(folder))?;
        Ok(Self { file, generation })
    }

    /// Adds a line in one write, so that a kill leaves a whole line or none.
    pub(super) fn write(&self, attempt: &Attempt) -> io::Result<()> {
        let line = format!("{}\t{}\t{}\n", self.generation, attempt.number, attempt.idempotency_key());
        (&self.file).write_all(line.as_bytes())
    }
}

/// How long the ledger is.
pub(super) fn length(folder: &Path) -> u64 {
    std::fs::metadata(path_in(folder)).map_or(0, |found| found.len())
}

/// All effects so far.
pub(super) fn read(folder: &Path) -> Result<ByStep, String> {
    let text = std::fs::read_to_string(path_in(folder)).map_err(|e| format!("the ledger cannot be read: {e}"))?;
    let mut effects = ByStep::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let (step, effect) = parse(line, offset).ok_or_else(|| format!("a torn line in the ledger: {line:?}"))?;
        effects.entry(step).or_default().push(effect);
        offset += line.len() as u64;
    }
    Ok(effects)
}

fn parse(line: &str, offset: u64) -> Option<((String, String), Effect)> {
    let mut fields = line.strip_suffix('\n')?.split('\t');
    let (generation, attempt, key) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, fields.next()?);
    // `run/number/operation`; ids of these runs have no slash, operations may.
    let mut parts = key.splitn(3, '/');
    let (run, _number, op) = (parts.next()?, parts.next()?, parts.next()?);
    let effect = Effect { offset, generation, attempt, key: key.to_owned() };
    Some(((run.to_owned(), op.to_owned()), effect))
}
