//! The ledger of what step bodies really did: a line in a file each time one begins, in any process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use outlive::Attempt;

/// Length of every line. It divides a page: a kill can cut a write only where one page ends and the next begins.
const LINE: usize = 128;

/// The ledger as a worker writes it.
pub(super) struct Effects {
    file: File,
    /// Number of this worker process.
    generation: u64,
}

/// One time that a step body began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Effect {
    /// Offset of its line in the ledger.
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

    /// Adds a line in one write within one page, so that a kill leaves a whole line or none.
    pub(super) fn write(&self, attempt: &Attempt) -> io::Result<()> {
        let fields = format!("{}\t{}\t{}", self.generation, attempt.number, attempt.idempotency_key());
        if fields.len() >= LINE {
            return Err(io::Error::other(format!("a ledger line holds at most {LINE} bytes: {fields:?}")));
        }
        (&self.file).write_all(format!("{fields:width$}\n", width = LINE - 1).as_bytes())
    }
}

/// Returns the length of the ledger.
pub(super) fn length(folder: &Path) -> u64 {
    std::fs::metadata(path_in(folder)).map_or(0, |found| found.len())
}

/// Reads all effects so far.
pub(super) fn read(folder: &Path) -> Result<ByStep, String> {
    let text = std::fs::read_to_string(path_in(folder)).map_err(|e| format!("failed to read the ledger: {e}"))?;
    let mut effects = ByStep::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let (step, effect) = parse(line, offset).ok_or_else(|| format!("torn line in the ledger: {line:?}"))?;
        effects.entry(step).or_default().push(effect);
        offset += line.len() as u64;
    }
    Ok(effects)
}

fn parse(line: &str, offset: u64) -> Option<((String, String), Effect)> {
    let whole = line.strip_suffix('\n').filter(|_| line.len() == LINE)?;
    let fields: Vec<&str> = whole.trim_end_matches(' ').split('\t').collect();
    let [generation, attempt, key] = fields[..] else { return None };
    let (generation, attempt) = (generation.parse().ok()?, attempt.parse().ok()?);
    // `run/number/operation`; ids of these runs have no slash, operations may.
    let mut parts = key.splitn(3, '/');
    let (run, _number, op) = (parts.next()?, parts.next()?, parts.next()?);
    let effect = Effect { offset, generation, attempt, key: key.to_owned() };
    Some(((run.to_owned(), op.to_owned()), effect))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn line(fields: &str) -> String {
        format!("{fields:width$}\n", width = LINE - 1)
    }

    /// Regression: a line was cut at the end of a page, the next one continued in it, and both were read as one line of
    /// a step that does not exist.
    #[test]
    fn torn_line_is_reported_and_not_misread() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (line("7\t1\tc1-2-3/9/left/step:add"), line("8\t2\tc1-2-3/9/left/step:add"));
        std::fs::write(path_in(folder.path()), format!("{first}{second}")).unwrap();
        let effects = read(folder.path()).unwrap();
        let step = ("c1-2-3".to_owned(), "left/step:add".to_owned());
        assert_eq!(
            effects[&step].iter().map(|effect| (effect.generation, effect.attempt)).collect::<Vec<_>>(),
            [(7, 1), (8, 2)]
        );
        for torn in [format!("{}{second}", &first[..20]), format!("{first}{}", &second[..20])] {
            std::fs::write(path_in(folder.path()), torn).unwrap();
            assert!(read(folder.path()).unwrap_err().starts_with("torn line in the ledger"));
        }
    }
}
