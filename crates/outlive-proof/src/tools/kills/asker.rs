//! A client as seen by its parent: one plan, carried out by one process after another.

use std::path::{Path, PathBuf};

use super::child::Role;
use super::plan::Progress;
use super::process::Process;
use super::tally::{Acks, Promises, Tally};

pub(super) struct Asker {
    folder: PathBuf,
    seed: u64,
    client: usize,
    tally: Tally,
    process: Option<Process>,
}

impl Asker {
    pub(super) fn start(folder: &Path, seed: u64, client: usize) -> Result<Self, String> {
        let tally = Tally::new(seed, client);
        let mut asker = Self { folder: folder.to_owned(), seed, client, tally, process: None };
        asker.go_on()?;
        Ok(asker)
    }

    /// Starts a process that resumes after the last acknowledgement.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        let Progress { block, index } = self.tally.progress;
        let role = Role::Client { folder: self.folder.clone(), seed: self.seed, client: self.client, block, index };
        self.process = Some(Process::start(&role)?);
        Ok(())
    }

    pub(super) fn hear(&mut self, promises: &mut Promises, acks: &mut Acks) -> Result<(), String> {
        let lines = self.process.as_ref().map(Process::hear).unwrap_or_default();
        self.keep(lines, promises, acks)
    }

    pub(super) fn kill(&mut self, promises: &mut Promises, acks: &mut Acks) -> Result<(), String> {
        let lines = self.process.take().map_or(Ok(Vec::new()), Process::kill)?;
        self.keep(lines, promises, acks)
    }

    /// Lets the client finish its block, so that everything it has begun is requested.
    pub(super) fn stop(&mut self, promises: &mut Promises, acks: &mut Acks) -> Result<(), String> {
        let lines = self.process.take().map_or(Ok(Vec::new()), Process::stop)?;
        self.keep(lines, promises, acks)?;
        match self.tally.progress.index {
            0 => Ok(()),
            index => Err(format!("client {} ended before operation {index} of its block", self.client)),
        }
    }

    fn keep(&mut self, lines: Vec<String>, promises: &mut Promises, acks: &mut Acks) -> Result<(), String> {
        for line in lines {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["ack", block, index, answer] => {
                    let expected = (self.tally.progress.block.to_string(), self.tally.progress.index.to_string());
                    if (block, index) != (expected.0.as_str(), expected.1.as_str()) {
                        return Err(format!("client {} printed {line:?}, expected {expected:?}", self.client));
                    }
                    self.tally.acknowledged(answer, promises, acks)?;
                }
                ["trouble", ..] => acks.troubles += 1,
                _ => return Err(format!("client {} printed {line:?}", self.client)),
            }
        }
        Ok(())
    }
}
