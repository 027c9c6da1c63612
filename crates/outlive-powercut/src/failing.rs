//! Runs a store on a failing disk: it must report errors, lose nothing, and continue when the disk works again.

use std::sync::Arc;

use outlive_core::store::commit::{Answer, Epoch, Refusal, Write};
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

/// Number of tries before the disk is repaired.
const TRIES_BEFORE_REPAIR: u64 = 3;
/// Total number of tries.
const TRIES_MAX: u64 = 2 * TRIES_BEFORE_REPAIR;
/// Number of batches written before the store is closed and reopened, and after.
const BATCHES: usize = 8;
/// Number of random images checked after the power cut.
const RANDOM_IMAGES: u64 = 2;

const CLOSED: &str = "the store is closed";

/// The result of one run on a failing disk.
///
/// ```
/// use outlive_powercut::{Lasting, Trouble, fail_io};
/// let outcome = fail_io(1, Trouble::Full, Lasting::Once, 40).unwrap();
/// assert_eq!(outcome.failed, 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of I/O operations that failed; if none, the store needed fewer.
    pub failed: u64,
    /// How often the store returned an error.
    pub errors: u64,
    /// Number of steps it acknowledged.
    pub steps: u64,
}

/// Makes the `nth` I/O operation of a store fail, and possibly all later ones until the disk is repaired.
///
/// ```
/// use outlive_powercut::{Lasting, Trouble, fail_io};
/// let outcome = fail_io(1, Trouble::Failing, Lasting::UntilRepaired, 100).unwrap();
/// assert!(outcome.errors > 0);
/// ```
///
/// # Errors
/// If the store lost or tore something, returned something other than an allowed error, did not reply, or did not
/// continue by itself.
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
    /// `None` while it is closed. Declared first, as fields drop in this order: the disk must go after everything that
    /// has it open.
    store: Option<SqliteStore>,
    stage: Stage,
    model: Model,
    /// The steps that the store has acknowledged.
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
        // A lease may have been given although the reply was an error.
        while self.model.epoch < epoch {
            self.model.tell(&Step::Lease(now))?;
            self.steps.push(Step::Lease(now));
        }
        if self.model.epoch != epoch {
            return Err(format!("the lease is {epoch:?}, but the model has {:?}", self.model.epoch));
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
                // A repeat shows nothing new: it is the same batch on the same disk.
                if kinds.len() == 1 {
                    check_word(error.kind, stage, steps, &batch)?;
                }
            }
            Ok(answer)
        })?;
        // The work that follows a write must be over before anything else begins, so that the nth I/O operation is the
        // same each time.
        told(wait(store.release(Epoch(0)))?)?;
        let is_in_doubt = kinds.contains(&ErrorKind::Unknown);
        let expected = comparable(self.model.write(&batch)?, &batch, is_in_doubt);
        let answer = comparable(answers, &batch, is_in_doubt);
        self.steps.push(Step::Write(batch));
        if answer != expected {
            return Err(format!("a batch returned {answer}, but the model {expected}"));
        }
        self.settle()
    }

    /// Checks the contents of the store after a step.
    fn settle(&mut self) -> Result<(), String> {
        self.outcome.steps += 1;
        let store = self.store.as_ref().ok_or(CLOSED)?;
        let found = insist(&self.stage, &mut self.outcome, || Snapshot::of(store))?;
        found.compare(&self.model.snapshot()?)
    }

    /// Cuts the power: everything acknowledged must be there, whatever else is.
    fn cut_power(&mut self) -> Result<(), String> {
        self.stage.disk().set_fault(None);
        let log = self.stage.disk().stop();
        self.store = None;
        self.stage.digest(Look::Thorough)?;
        look_after_cut(&log, &[self.model.snapshot()?])
    }
}

/// Makes results comparable. When the batch was in doubt, purging a missing instance returns the same as if it had just
/// been purged, as a purge carries nothing to identify it by.
fn comparable(mut answers: Vec<Answer>, batch: &[Write], is_in_doubt: bool) -> String {
    for (answer, write) in answers.iter_mut().zip(batch) {
        let is_gone = matches!(answer, Answer::Done | Answer::Refused(Refusal::NotFound));
        if is_in_doubt && is_gone && matches!(write, Write::Purge(..)) {
            *answer = Answer::Done;
        }
    }
    shown(answers)
}

/// Checks what the store reports about a batch it could not write against what a power cut would leave now: nothing of
/// it, or all or nothing of it if the store reports that it does not know.
fn check_word(kind: ErrorKind, stage: &Stage, steps: &[Step], batch: &Arc<Vec<Write>>) -> Result<(), String> {
    let mut model = Model::after(steps)?;
    let mut expected = vec![model.snapshot()?];
    if kind == ErrorKind::Unknown {
        model.write(batch)?;
        expected.push(model.snapshot()?);
    }
    look_after_cut(&stage.disk().log(), &expected).map_err(|found| format!("the store reported {kind:?}: {found}"))
}

/// Checks that a power cut at the end of a log leaves one of the expected states.
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

/// Repeats a request until it succeeds, as an engine does, and repairs the disk when that does not help.
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
            return Err(format!("the disk fails, but the store reports a damaged file: {error}"));
        }
        if tries == TRIES_BEFORE_REPAIR {
            stage.disk().set_fault(None);
        }
        if tries == TRIES_MAX {
            return Err(format!("the disk works again, but the store does not continue: {error}"));
        }
    }
}
