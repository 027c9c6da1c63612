//! One seeded world: a store runs, the power is cut at every moment, and what is left is checked.

use std::collections::HashSet;
use std::sync::Arc;

use outlive_core::store::Store;

use crate::author::Author;
use crate::chance::Chance;
use crate::cut::{Moment, Survival};
use crate::life::{self, History, Life};
use crate::log::Image;
use crate::model::{Model, Snapshot, Step, shown, told};
use crate::stage::{Look, Setting, Stage};
use crate::wait::wait;

/// Number of images of each moment; the first two are not random.
const IMAGES_PER_MOMENT: u64 = 10;
/// One in this many states is opened as a whole store.
const WHOLE_EVERY: u64 = 40;
/// One in this many states has its indexes checked against their tables.
const THOROUGH_EVERY: u64 = 10;
/// Number of lives, each on what a cut has left of the previous one, before a world starts over.
const LIVES_MAX: u64 = 4;

/// Totals and findings of a world.
///
/// ```
/// use outlive_powercut::{Setting, cut_power};
/// let tally = cut_power(7, Setting::Full, 50, &|| ()).unwrap();
/// assert_eq!((tally.states, tally.lost, tally.torn), (50, 0, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of different states checked: the contents of the disk, and what was acknowledged.
    pub states: u64,
    /// Number of states that were opened as a whole store, compared through its queries, and written to again.
    pub whole: u64,
    /// Number of moments at which the power was cut.
    pub cuts: u64,
    /// Number of lives of a store.
    pub lives: u64,
    /// Number of steps it acknowledged in them.
    pub steps: u64,
    /// How often the database file was synced in them: when its log was checkpointed into it.
    pub checkpoints: u64,
    /// Number of states that lacked an acknowledged step.
    pub lost: u64,
    /// Number of states that were damaged, or between two steps.
    pub torn: u64,
    /// Describes the first of these, with the way to reproduce it.
    pub first: Option<String>,
}

impl Tally {
    /// Adds two tallies.
    ///
    /// ```
    /// use outlive_powercut::Tally;
    /// let one = Tally { states: 1, ..Tally::default() };
    /// assert_eq!(one.clone().plus(one).states, 2);
    /// ```
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            states: self.states + other.states,
            whole: self.whole + other.whole,
            cuts: self.cuts + other.cuts,
            lives: self.lives + other.lives,
            steps: self.steps + other.steps,
            checkpoints: self.checkpoints + other.checkpoints,
            lost: self.lost + other.lost,
            torn: self.torn + other.torn,
            first: self.first.or(other.first),
        }
    }
}

/// Cuts the power under a store until this many different states were checked. Calls `seen` for each of them.
///
/// ```
/// use outlive_powercut::{Setting, cut_power};
/// let tally = cut_power(1, Setting::Relaxed, 3_000, &|| ()).unwrap();
/// assert!(tally.lost > 0 && tally.torn == 0, "{tally:?}");
/// ```
///
/// # Errors
/// If the store behaves differently from the memory store while nothing fails.
pub fn cut_power(seed: u64, setting: Setting, states_max: u64, seen: &dyn Fn()) -> Result<Tally, String> {
    let mut world =
        World { stage: Stage::new(setting)?, seed, states_max, keys: HashSet::new(), tally: Tally::default(), seen };
    let (mut base, mut history) = (Image::new(), History::default());
    while world.tally.states < states_max {
        let number = world.tally.lives;
        let chance = Chance::of([seed, number]);
        let lived = life::live(&world.stage, base, history, chance);
        let life = lived.map_err(|found| format!("seed {seed}, life {number}: {found}"))?;
        world.tally.lives += 1;
        world.tally.steps += (life.history.len() - life.step) as u64;
        world.tally.checkpoints += life.checkpoints();
        let left = world.cut(&life);
        (base, history) = left.filter(|_| !world.tally.lives.is_multiple_of(LIVES_MAX)).unwrap_or_default();
    }
    Ok(world.tally)
}

struct World<'a> {
    stage: Stage,
    seed: u64,
    states_max: u64,
    /// The states checked in this life.
    keys: HashSet<u64>,
    tally: Tally,
    seen: &'a dyn Fn(),
}

/// The verdict on a state.
enum Verdict {
    /// The state after this step, which is an allowed one.
    Good(usize),
    /// The state after this step, although a later one was acknowledged.
    Lost(usize),
    /// Anything else.
    Torn(String),
}

impl World<'_> {
    /// Cuts the power at each moment of a life. Returns one of the states, for the next life.
    fn cut(&mut self, life: &Life) -> Option<(Image, History)> {
        self.keys.clear();
        let mut moment = Moment::first(&life.base, life.step, &life.log);
        let chosen = Chance::of([self.seed, self.tally.lives]).below(life.log.len());
        let mut next = None;
        loop {
            self.tally.cuts += 1;
            for number in 0..IMAGES_PER_MOMENT {
                let mut chance = Chance::of([self.seed, self.tally.lives, moment.position as u64, number]);
                let image = match number {
                    0 => moment.image(Survival::Nothing),
                    1 => moment.image(Survival::Everything),
                    _ => moment.random_image(&mut chance),
                };
                let is_chosen = moment.position == chosen && number == IMAGES_PER_MOMENT - 1;
                if !self.keys.insert(key(&image, moment.acked)) && !is_chosen {
                    continue;
                }
                let kept = is_chosen.then(|| image.clone());
                let step = self.look(life, &moment, number, image);
                next = kept.zip(step).map(|(image, step)| (image, life.history.up_to(step))).or(next);
                if self.tally.states == self.states_max {
                    return next;
                }
            }
            if !moment.advance() {
                return next;
            }
        }
    }

    /// Checks one state. Returns the step it is after, if it is a whole one.
    fn look(&mut self, life: &Life, moment: &Moment<'_>, number: u64, image: Image) -> Option<usize> {
        self.tally.states += 1;
        (self.seen)();
        let is_whole = self.tally.states.is_multiple_of(WHOLE_EVERY);
        let again = is_whole.then(|| image.clone());
        let mut verdict = self.judge(life, moment, image);
        if let (Verdict::Good(step), Some(image)) = (&verdict, again) {
            self.tally.whole += 1;
            if let Err(found) = self.open_whole(&life.history, *step, image) {
                verdict = Verdict::Torn(found);
            }
        }
        let (acked, begun) = (moment.acked, moment.begun);
        let (found, step) = match verdict {
            Verdict::Good(step) => return Some(step),
            Verdict::Lost(step) => {
                self.tally.lost += 1;
                (format!("step {step} is the last on the disk, but {acked} was acknowledged"), Some(step))
            }
            Verdict::Torn(found) => {
                self.tally.torn += 1;
                (format!("{found} (expected step {acked} to {begun})"), None)
            }
        };
        let (seed, lives, position) = (self.seed, self.tally.lives, moment.position);
        let place = format!("seed {seed}, life {lives}, cut before operation {position}, image {number}");
        self.tally.first.get_or_insert_with(|| format!("{place}: {found}"));
        step
    }

    fn judge(&self, life: &Life, moment: &Moment<'_>, image: Image) -> Verdict {
        let is_thorough = self.tally.states.is_multiple_of(THOROUGH_EVERY);
        self.stage.disk().insert(image, self.stage.syncs());
        let digest = match self.stage.digest(if is_thorough { Look::Thorough } else { Look::Quick }) {
            Ok(digest) => digest,
            Err(found) => return Verdict::Torn(found),
        };
        match life.history.find(digest, moment.acked, moment.begun) {
            Some(step) if step < moment.acked => Verdict::Lost(step),
            Some(step) if step <= moment.begun => Verdict::Good(step),
            Some(step) => Verdict::Torn(format!("step {step} is on the disk, but was not requested yet")),
            None => Verdict::Torn("the disk does not match the state after any step".to_owned()),
        }
    }

    /// Opens a state as a store does, compares everything it shows, and writes to it again.
    fn open_whole(&self, history: &History, step: usize, image: Image) -> Result<(), String> {
        self.stage.disk().insert(image, self.stage.syncs());
        let store = self.stage.open()?;
        told(Snapshot::of(&store)?)?.compare(history.snapshot(step))?;
        let mut model = Model::after(&history.steps()[..step])?;
        let mut chance = Chance::of([self.seed, self.tally.states]);
        let mut held = history.snapshot(step).clone();
        for tick in 0..3 {
            let mut author = Author { chance: &mut chance, held: &held, epoch: model.epoch, tick: step + tick };
            let next = if tick == 0 { Step::Lease(author.moment()) } else { Step::Write(author.batch()) };
            let expected = model.tell(&next)?;
            let answer = match &next {
                Step::Lease(now) => format!("{:?}", told(wait(store.lease(*now))?)?),
                Step::Write(batch) => shown(told(wait(store.write(Arc::clone(batch)))?)?),
                Step::Open | Step::Release(_) => expected.clone(),
            };
            if answer != expected {
                return Err(format!("after the cut {next:?} returned {answer}, but the model {expected}"));
            }
            held = model.snapshot()?;
        }
        told(Snapshot::of(&store)?)?.compare(&held)?;
        drop(store);
        self.stage.digest(Look::Thorough).map(drop)
    }
}

/// Identifies a state: the contents of the disk, and what was acknowledged.
fn key(image: &Image, acked: usize) -> u64 {
    let mut sum = acked as u64;
    let mut eat = |word: u64| sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    for (name, content) in image {
        name.bytes().for_each(|byte| eat(byte.into()));
        eat(content.len() as u64);
        let (words, rest) = content.as_chunks::<8>();
        words.iter().for_each(|word| eat(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| eat((*byte).into()));
    }
    sum
}
