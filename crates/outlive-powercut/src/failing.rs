//! A store on a disk that fails: it says so, loses nothing, and goes on when the disk is good again.

use std::sync::Arc;

use outlive_core::commit::{Answer, Epoch, Refusal, Write};
use outlive_core::store::{Error, ErrorKind, Store};
use outlive_core::time::Timestamp;
use outlive_sqlite::SqliteStore;

use crate::author::Author;
use crate::chance::Chance;
use crate::cut::{Moment, Survival};
use crate::fault::{Fault, Lasting, Trouble};
use crate::log::{Image, Op};
use crate::model::{Model, Snapshot, Step, shown, told};
use crate::stage::{Look, Setting, Stage};
use crate::wait::wait;

/// How often something is tried before the disk is repaired.
const TRIES_BEFORE_REPAIR: u64 = 3;
/// How often it is tried in all.
const TRIES_MAX: u64 = 2 * TRIES_BEFORE_REPAIR;
/// How many batches are written before the store is closed and opened again, and after it.
const BATCHES: usize = 8;
/// How often chance decides what is left if the power goes.
const RANDOM_IMAGES: u64 = 2;

const CLOSED: &str = "the store is closed";

/// How it went.
///
/// ```
/// use outlive_powercut::{Lasting, Trouble, fail_io};
/// let outcome = fail_io(1, Trouble::Full, Lasting::Once, 40).unwrap();
/// assert_eq!(outcome.failed, 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How many I/O failed; if none, the store asked for fewer.
    pub failed: u64,
    /// How often the store answered with an error.
    pub errors: u64,
    /// How many steps it acknowledged.
    pub steps: u64,
}

/// Has the `nth` I/O of a store fail, and perhaps those after it until the disk is repaired.
///
/// ```
/// use outlive_powercut::{Lasting, Trouble, fail_io};
/// let outcome = fail_io(1, Trouble::Failing, Lasting::UntilRepaired, 100).unwrap();
/// assert!(outcome.errors > 0);
/// ```
///
/// # Errors
/// If the store lost or tore something, answered with something else than an error it may give, did not answer at
/// all, or did not go on by itself.
pub fn fail_io(seed: u64, trouble: Trouble, lasting: Lasting, nth: u64) -> Result<Outcome, String> {
    let stage = Stage::new(Setting::Full)?;
    stage.disk().insert(Image::new(), stage.syncs());
    stage.disk().record();
    stage.disk().set_fault(Some(Fault { trouble, lasting, nth }));
    let chance = Chance::of([seed]);
    let (model, outcome) = (Model::default(), Outcome::default());
    let mut failing = Failing { store: None, stage, model, steps: Vec::new(), chance, outcome };
    let place = |found| format!("seed {seed}, {trouble:?}, {lasting:?}, I/O {nth}: {found}");
    failing.run().map_err(place)?;
    Ok(failing.outcome)
}

struct Failing {
    /// `None` while it is closed. First, as fields go in this order: the disk goes after those who have it open.
    store: Option<SqliteStore>,
    stage: Stage,
    model: Model,
    /// What the store has acknowledged.
    steps: Vec<Step>,
    chance: Chance,
    outcome: Outcome,
}

impl Failing {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            self.store = None;
            self.open()?;
            self.lease()?;
            for _ in 0..BATCHES {
                self.write()?;
            }
        }
        self.outcome.failed = self.stage.disk().failed();
        self.cut_power()
    }

    fn open(&mut self) -> Result<(), String> {
        let store = insist(&self.stage, &mut self.outcome, || Ok(self.stage.store()))?;
        self.store = Some(store);
        self.settle()
    }

    fn lease(&mut self) -> Result<(), String> {
        let now = Timestamp::from_millis(1);
        let store = self.store.as_ref().ok_or(CLOSED)?;
        let epoch = insist(&self.stage, &mut self.outcome, || wait(store.lease(now)))?;
        // One whose answer was an error may have been given all the same.
        while self.model.epoch < epoch {
            self.model.tell(&Step::Lease(now))?;
            self.steps.push(Step::Lease(now));
        }
        if self.model.epoch != epoch {
            return Err(format!("the lease is {epoch:?}, the model says {:?}", self.model.epoch));
        }
        self.settle()
    }

    fn write(&mut self) -> Result<(), String> {
        let held = self.model.snapshot()?;
        let tick = usize::try_from(self.outcome.steps).unwrap_or(0);
        let batch = Author { chance: &mut self.chance, held: &held, epoch: self.model.epoch, tick }.batch();
        let store = self.store.as_ref().ok_or(CLOSED)?;
        let (stage, steps) = (&self.stage, &self.steps);
        let mut kinds = Vec::new();
        let answers = insist(stage, &mut self.outcome, || {
            let answer = wait(store.write(batch.clone()))?;
            if let Err(error) = &answer {
                kinds.push(error.kind);
                // Once more means nothing new: it is the same batch on the same disk.
                if kinds.len() == 1 {
                    check_word(error.kind, stage, steps, &batch)?;
                }
            }
            Ok(answer)
        })?;
        // What follows a write is over before anything else begins, so that the same I/O is the nth each time.
        told(wait(store.release(Epoch(0)))?)?;
        let is_in_doubt = kinds.contains(&ErrorKind::Unknown);
        let expected = comparable(self.model.write(&batch)?, &batch, is_in_doubt);
        let answer = comparable(answers, &batch, is_in_doubt);
        self.steps.push(Step::Write(batch));
        if answer != expected {
            return Err(format!("a batch was answered with {answer}, the model says {expected}"));
        }
        self.settle()
    }

    /// Looks at what the store holds after a step.
    fn settle(&mut self) -> Result<(), String> {
        self.outcome.steps += 1;
        let store = self.store.as_ref().ok_or(CLOSED)?;
        let found = insist(&self.stage, &mut self.outcome, || Snapshot::of(store))?;
        found.compare(&self.model.snapshot()?)
    }

    /// Cuts the power: what was acknowledged is there, whatever else is.
    fn cut_power(&mut self) -> Result<(), String> {
        self.stage.disk().set_fault(None);
        let log = self.stage.disk().stop();
        self.store = None;
        self.stage.digest(Look::Thorough)?;
        look_after_cut(&log, &[self.model.snapshot()?])
    }
}

/// The answers to a batch. When it was in doubt, a purge of what is not there is answered as if it had just been done,
/// as it carries nothing to know it by.
fn comparable(mut answers: Vec<Answer>, batch: &[Write], is_in_doubt: bool) -> String {
    for (answer, write) in answers.iter_mut().zip(batch) {
        let is_gone = matches!(answer, Answer::Done | Answer::Refused(Refusal::NotFound));
        if is_in_doubt && is_gone && matches!(write, Write::Purge(..)) {
            *answer = Answer::Done;
        }
    }
    shown(answers)
}

/// Holds what the store says of a batch that it could not write against what a power cut would leave now: nothing of
/// it, or all or nothing of it if the store says that it does not know.
fn check_word(kind: ErrorKind, stage: &Stage, steps: &[Step], batch: &Arc<Vec<Write>>) -> Result<(), String> {
    let mut model = Model::after(steps)?;
    let mut expected = vec![model.snapshot()?];
    if kind == ErrorKind::Unknown {
        model.write(batch)?;
        expected.push(model.snapshot()?);
    }
    look_after_cut(&stage.disk().log(), &expected).map_err(|found| format!("the store said {kind:?}: {found}"))
}

/// Looks at what a power cut may leave at the end of a log: one of what is expected.
fn look_after_cut(log: &[Op], expected: &[Snapshot]) -> Result<(), String> {
    let mut moment = Moment::first(&Image::new(), 0, log);
    while moment.advance() {}
    let mut images = vec![moment.image(Survival::Nothing), moment.image(Survival::Everything)];
    images.extend((0..RANDOM_IMAGES).map(|number| moment.random_image(&mut Chance::of([number]))));
    for (number, image) in (0..).zip(images) {
        look(image, expected).map_err(|found| format!("after a power cut, image {number}: {found}"))?;
    }
    Ok(())
}

fn look(image: Image, expected: &[Snapshot]) -> Result<(), String> {
    let stage = Stage::new(Setting::Full)?;
    stage.disk().insert(image, stage.syncs());
    stage.digest(Look::Thorough)?;
    let found = told(Snapshot::of(&stage.open()?)?)?;
    let mut compared = expected.iter().map(|expected| found.compare(expected));
    compared.find(Result::is_ok).unwrap_or_else(|| found.compare(&expected[0]))
}

/// Asks for the same until it is done, as an engine does, and has the disk repaired when that does not help.
fn insist<T>(
    stage: &Stage,
    outcome: &mut Outcome,
    mut ask: impl FnMut() -> Result<Result<T, Error>, String>,
) -> Result<T, String> {
    let mut tries = 0;
    loop {
        let error = match ask()? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        outcome.errors += 1;
        tries += 1;
        if error.kind == ErrorKind::Corrupt {
            return Err(format!("the disk fails, and the store says that the file is damaged: {error}"));
        }
        if tries == TRIES_BEFORE_REPAIR {
            stage.disk().set_fault(None);
        }
        if tries == TRIES_MAX {
            return Err(format!("the disk is good again, and the store does not go on: {error}"));
        }
    }
}
