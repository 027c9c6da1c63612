//! One seeded world: workers on one store, actions on its runs and jobs, and everything that can go wrong.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outlive::clock::Clock;
use outlive::{Engine, Timestamp};
use outlive_core::store::commit::{Answer, Claimed, Write};
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::Query;
use outlive_core::store::{Error, ErrorKind, Store};

use crate::clock::TestClock;
use crate::random::Random;
use crate::words;

use super::accepted::Acceptance;
use super::acts::{Answers, Stand, Told};
use super::end::{self, End};
use super::gate::{Call, Gate};
use super::kept::{self, Since};
use super::ledger::{Hook, Ledger};
use super::moves::{Fate, Move, pick};
use super::plan::Sim;
use super::skew::{Skewed, shifted};

/// Limit on moves before the faults stop.
const STORM_MOVES_MAX: u64 = 400;
/// Limit on moves until the end once the faults have stopped.
const CALM_MOVES_MAX: u64 = 20_000;
/// The longest time an engine waits before it retries a store in trouble.
const TROUBLE: Duration = Duration::from_secs(2);
/// The longest time after which an engine polls the store by itself.
const LOOK: Duration = Duration::from_secs(61);

/// Longer than any world lives: lifecycle events are checked at the end.
const KEPT: Duration = Duration::from_secs(20_000 * 24 * 3_600);

/// Enough room for all runs of a world; sometimes there is less.
const RESIDENTS: usize = 1_000;

/// Totals of one world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) moves: u64,
    pub(super) crashes: u64,
    pub(super) takeovers: u64,
    pub(super) lost_answers: u64,
    pub(super) effects: u64,
    pub(super) runs: u64,
    pub(super) events: u64,
}

/// One process of a worker.
struct Worker {
    life: u64,
    engine: Engine,
    gate: Arc<Gate>,
    ahead_ms: i64,
    /// Whether all runs of the world fit in its memory.
    has_room: bool,
}

/// A world.
pub(super) struct World<'a> {
    plan: &'a Sim,
    random: Random,
    store: Arc<MemoryStore>,
    clock: TestClock,
    /// When it began.
    started: Timestamp,
    workers: Vec<Option<Worker>>,
    /// The worker that took the lease last.
    owner: usize,
    ledger: Arc<Ledger>,
    /// Accepted job events.
    acceptance: Acceptance,
    /// The progress of jobs since the faults stopped.
    since: Since,
    stands: Vec<Stand>,
    lives: u64,
    faults_left: u64,
    is_calm: bool,
    is_paranoid: bool,
    counts: Counts,
    /// The trace, if requested.
    trace: Option<Vec<String>>,
}

impl<'a> World<'a> {
    pub(super) fn new(plan: &'a Sim, is_traced: bool) -> Self {
        let mut random = plan.random().clone();
        let clock = TestClock::new();
        Self {
            store: Arc::new(MemoryStore::new()),
            workers: (0..plan.workers).map(|_| None).collect(),
            owner: 0,
            ledger: Ledger::new(clock.clone(), random.next(), plan.mocks.clone()),
            stands: plan.acts.iter().map(|_| Stand::Waiting).collect(),
            acceptance: Acceptance::default(),
            since: Since::default(),
            lives: 0,
            faults_left: if plan.faults_max == 0 { 0 } else { random.next() % (plan.faults_max + 1) },
            is_calm: false,
            is_paranoid: random.is(8),
            counts: Counts::default(),
            trace: is_traced.then(Vec::new),
            started: clock.now(),
            plan,
            random,
            clock,
        }
    }

    /// Runs the world. Returns an error if a check fails.
    pub(super) async fn run(&mut self) -> Result<Counts, String> {
        self.start(0).await?;
        for _ in 0..STORM_MOVES_MAX {
            if !self.make_move().await? {
                break;
            }
        }
        self.calm_down().await?;
        let mut looks = 0;
        for _ in 0..CALM_MOVES_MAX {
            if self.make_move().await? {
                continue;
            }
            if looks == 3 || self.has_ended().await {
                return self.end().await;
            }
            tokio::time::sleep(TROUBLE).await;
            if self.workers.iter().flatten().any(|worker| worker.gate.waiting() > 0) {
                // Something took its time, or was retried.
                continue;
            }
            // Work without a due time is found when the engine polls the store.
            looks += 1;
            self.clock.advance(LOOK);
            self.settle().await;
        }
        let restless = self.unrest().await.unwrap_or_default();
        Err(format!("the world never comes to rest: {CALM_MOVES_MAX} moves since the last fault; {restless}"))
    }

    pub(super) fn trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{}: {}", words::span(self.clock.now().since(self.started)), line()));
        }
    }

    /// Returns when nothing moves by itself: the runtime's clock stands still while anything does.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Makes one move. Returns `false` if there was none.
    async fn make_move(&mut self) -> Result<bool, String> {
        self.hear();
        let moves = self.moves();
        let Some(next) = pick(&moves, &mut self.random) else {
            self.check_due().await?;
            // With recurring jobs, something is always due.
            let is_endless = self.plan.is_endless() || self.since.has_rounds();
            if self.is_calm && is_endless && self.has_ended().await {
                return Ok(false);
            }
            return self.pass_time().await;
        };
        self.counts.moves += 1;
        let plan = self.plan;
        self.note(|| match next {
            Move::Act(act, _) => format!("{next}: {}", plan.acts[act]),
            _ => next.to_string(),
        });
        match next {
            Move::Answer(worker, fate) => self.answer(worker, fate).await?,
            Move::Crash(worker) => self.crash(worker).await,
            Move::Start(worker) => self.start(worker).await?,
            Move::Cut(worker) => self.cut(worker, true),
            Move::Mend(worker) => self.cut(worker, false),
            Move::Hint(worker) => self.worker(worker, |worker| worker.gate.hint()),
            Move::Open(body) => {
                let name = self.ledger.open(body);
                self.note(|| format!("    {name}"));
            }
            Move::Act(act, Some(worker)) => self.act(act, worker),
            Move::Act(act, None) => self.act_outside(act).await?,
            // Nothing may be due, which is no reason to stop the faults.
            Move::Time => return self.pass_time().await.map(|_| true),
        }
        self.settle().await;
        self.ledger.broken().map_or(Ok(true), Err)
    }

    fn worker(&self, index: usize, f: impl FnOnce(&Worker)) {
        if let Some(worker) = &self.workers[index] {
            f(worker);
        }
    }

    /// Returns the possible moves with their weights.
    fn moves(&mut self) -> Vec<(u64, Move)> {
        let mut moves = Vec::with_capacity(16);
        let is_stormy = !self.is_calm;
        let has_faults = is_stormy && self.faults_left > 0;
        let mut cut = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            let Some(worker) = worker else {
                if self.workers.iter().all(Option::is_none) || has_faults {
                    moves.push((if self.workers[self.owner].is_none() { 4 } else { 1 }, Move::Start(index)));
                }
                continue;
            };
            if worker.gate.waiting() > 0 {
                moves.push((10, Move::Answer(index, Fate::Done)));
                if has_faults && worker.gate.has_write() {
                    moves.extend(Fate::FAULTS.map(|fate| (2, Move::Answer(index, fate))));
                }
            }
            if worker.gate.is_cut() {
                cut.push(worker.life);
                moves.push((2, Move::Mend(index)));
            } else if has_faults {
                moves.extend([(1, Move::Crash(index)), (1, Move::Cut(index)), (1, Move::Hint(index))]);
            }
        }
        let bodies = self.ledger.waiting(|life| cut.contains(&life));
        moves.extend(bodies.into_iter().map(|body| (5, Move::Open(body))));
        self.act_moves(&mut moves);
        if is_stormy && !moves.is_empty() {
            moves.push((1, Move::Time));
        }
        moves
    }

    fn act_moves(&mut self, moves: &mut Vec<(u64, Move)>) {
        for (index, act) in self.plan.acts.iter().enumerate() {
            let is_first = act.after.is_none_or(|after| matches!(self.stands[after], Stand::Acknowledged(_)));
            if !matches!(self.stands[index], Stand::Waiting) || !is_first {
                continue;
            }
            let up: Vec<usize> = (0..self.workers.len()).filter(|worker| self.workers[*worker].is_some()).collect();
            let by = (!up.is_empty() && !self.random.is(4)).then(|| self.random.pick(&up));
            moves.push((3, Move::Act(index, by)));
        }
    }

    // ---- workers ----

    async fn start(&mut self, index: usize) -> Result<(), String> {
        self.lives += 1;
        if self.workers[self.owner].is_some() {
            self.counts.takeovers += 1;
            self.faults_left = self.faults_left.saturating_sub(1);
        }
        let life = self.lives;
        let gate = Arc::new(Gate::new(self.store.clone(), self.random.next()));
        let ahead_ms = match self.plan.skew_max_ms {
            max if max > 0 && self.random.is(3) => self.random.below(2 * max) - max,
            _ => 0,
        };
        let max_resident = self.random.pick(&[1, 2, RESIDENTS]);
        let builder = Engine::with_store(gate.clone())
            .clock(Skewed { world: self.clock.clone(), ahead_ms })
            .step_hook(Arc::new(Hook { life, ledger: self.ledger.clone() }))
            .seed(self.random.next() ^ (life << 32))
            .max_recoveries(u32::MAX)
            .keep_events(KEPT)
            .max_resident(max_resident)
            .paranoid(self.is_paranoid);
        let engine = self.plan.set_up(builder).start().await.map_err(|error| format!("engine failed: {error}"))?;
        self.ledger.owns(life);
        self.owner = index;
        self.workers[index] = Some(Worker { life, engine, gate, ahead_ms, has_room: max_resident == RESIDENTS });
        Ok(())
    }

    async fn crash(&mut self, index: usize) {
        let Some(Worker { life, engine, gate, .. }) = self.workers[index].take() else { return };
        self.counts.crashes += 1;
        self.faults_left = self.faults_left.saturating_sub(1);
        engine.abandon().await;
        while gate.take().is_some() {}
        self.ledger.died(life);
        for stand in &mut self.stands {
            if matches!(stand, Stand::UnderWay(in_life, _) if *in_life == life) {
                *stand = Stand::Waiting;
            }
        }
    }

    fn cut(&mut self, index: usize, is_cut: bool) {
        self.faults_left = self.faults_left.saturating_sub(u64::from(is_cut));
        self.worker(index, |worker| worker.gate.cut(is_cut));
    }

    async fn answer(&mut self, index: usize, fate: Fate) -> Result<(), String> {
        let Some(call) = self.workers[index].as_ref().and_then(|worker| worker.gate.take()) else { return Ok(()) };
        let Call::Write { batch, reply } = call else {
            let Call::Read(leave) = call else { return Ok(()) };
            // The reader may be gone.
            let _ = leave.send(());
            return Ok(());
        };
        if fate != Fate::Done {
            self.faults_left = self.faults_left.saturating_sub(1);
        }
        let answers = if fate.is_written() { Some(self.write(&batch).await?) } else { None };
        self.give(index, answers.as_deref().unwrap_or_default());
        let answer = match (fate, answers) {
            (Fate::CrashBefore | Fate::CrashAfter, _) => {
                drop(reply);
                self.crash(index).await;
                return Ok(());
            }
            (Fate::Done, Some(answers)) => Ok(answers),
            (Fate::Refused, _) => Err(Error::new(ErrorKind::Unavailable, "no room (injected fault)")),
            _ => Err(Error::new(ErrorKind::Unknown, "the reply was lost (injected fault)")),
        };
        self.counts.lost_answers += u64::from(answer.is_err());
        // The writer may be gone.
        let _ = reply.send(answer);
        Ok(())
    }

    async fn write(&mut self, batch: &Arc<Vec<Write>>) -> Result<Vec<Answer>, String> {
        let answers = self.store.write(batch.clone()).await.map_err(|error| error.to_string())?;
        self.ledger.written(batch, &answers);
        self.acceptance.written(batch, &answers)?;
        if self.is_calm {
            self.since.written(batch, &answers);
        }
        if let Some(trace) = &mut self.trace {
            let lines = batch.iter().zip(&answers);
            let started = self.started;
            trace.extend(lines.map(|(write, answer)| {
                let (whom, what) = (words::of_whom(write), words::of_write(write, started));
                format!("    {whom}: {what} -> {}", words::of_answer(answer))
            }));
        }
        Ok(answers)
    }

    /// Records which runs a worker was given to drive.
    fn give(&self, index: usize, answers: &[Answer]) {
        if let Some(life) = self.workers[index].as_ref().map(|worker| worker.life) {
            answers.iter().for_each(|answer| self.gave(answer, life));
        }
    }

    fn gave(&self, answer: &Answer, life: u64) {
        match answer {
            Answer::Claimed(claimed) => {
                for Claimed { instance, journal, .. } in claimed {
                    let last = journal.as_ref().ok().and_then(|journal| journal.last());
                    self.ledger.gave(instance.num, life, last.map_or(0, |last| last.seq));
                }
            }
            Answer::Started { num, is_driven: true, .. } => self.ledger.gave(*num, life, 0),
            // What a commit has started is given to the process of its parent.
            Answer::DoneWith(carried) => carried.iter().for_each(|answer| self.gave(answer, life)),
            _ => {}
        }
    }

    // ---- actions ----

    fn act(&mut self, index: usize, worker: usize) {
        let Some(worker) = &self.workers[worker] else { return };
        let answers = Answers::default();
        self.stands[index] = Stand::UnderWay(worker.life, answers.clone());
        let act = self.plan.acts[index].clone();
        tokio::spawn(act.perform(worker.engine.client(), index, answers));
    }

    /// Performs an action from another process; the workers may be notified of it once, twice or not at all.
    async fn act_outside(&mut self, index: usize) -> Result<(), String> {
        let act = &self.plan.acts[index];
        let writes = act.writes(index, self.clock.now(), self.random.next());
        let answers = self.write(&Arc::new(writes)).await?;
        self.stands[index] = Stand::Acknowledged(Told::by(&act.wish, &answers));
        for worker in self.workers.iter().flatten() {
            (0..self.random.next() % 3).for_each(|_| worker.gate.hint());
        }
        Ok(())
    }

    /// Collects replies to actions. Occasionally, one is repeated: it must change nothing.
    fn hear(&mut self) {
        for (index, stand) in self.stands.iter_mut().enumerate() {
            let Stand::UnderWay(_, answers) = stand else { continue };
            let Some(told) = answers.lock().unwrap_or_else(PoisonError::into_inner).take() else { continue };
            let is_repeated = !self.is_calm && self.plan.acts[index].is_repeatable() && self.random.is(8);
            *stand = if told == Told::Again || is_repeated { Stand::Waiting } else { Stand::Acknowledged(told) };
        }
    }

    // ---- time ----

    /// Moves time to the next due moment, if there is one.
    async fn pass_time(&mut self) -> Result<bool, String> {
        let Some(due) = self.next_due().await else { return Ok(false) };
        let over = if self.random.is(4) { self.random.below(90_000) } else { 0 };
        self.clock.set(shifted(due, over));
        self.note(|| "time passes".to_owned());
        self.settle().await;
        self.ledger.broken().map_or(Ok(true), Err)
    }

    /// Checks that whatever is due has been picked up, as nothing moves by itself.
    async fn check_due(&self) -> Result<(), String> {
        if !self.is_calm || self.late().await.is_none() {
            return Ok(());
        }
        // The worker may be about to retry after the store's last trouble.
        tokio::time::sleep(TROUBLE).await;
        match self.late().await {
            Some(late) if self.workers.iter().flatten().all(|worker| worker.gate.waiting() == 0) => Err(late),
            _ => Ok(()),
        }
    }

    /// Finds a paused run that is due but was not picked up. One that another process wrote to may have to wait for a
    /// minute.
    async fn late(&self) -> Option<String> {
        let worker = self.workers[self.owner].as_ref().filter(|worker| worker.has_room)?;
        let now = shifted(self.clock.now(), worker.ahead_ms);
        for id in self.plan.runs().chain(self.plan.jobs()) {
            let Some(run) = self.store.instance(&id).await.ok().flatten() else { continue };
            let due = run.wake.filter(|due| *due > Timestamp::AT_ONCE && *due <= now);
            if let (true, 0, Some(due)) = (run.status.is_idle(), run.recoveries, due) {
                return Some(format!("run {id} was due at {due}, but was not picked up by {now}"));
            }
        }
        None
    }

    async fn next_due(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let ahead_ms = self.workers[self.owner].as_ref().map_or(0, |worker| worker.ahead_ms);
        let stored = self.store.wakes(Timestamp::MAX, 64).await.unwrap_or_default();
        let stored = stored.into_iter().map(|wake| shifted(wake.due, -ahead_ms));
        let workers = self.workers.iter().flatten();
        let near = workers.filter_map(|worker| Some(shifted(worker.engine.next_due()?, -worker.ahead_ms)));
        stored.chain(near).filter(|due| *due > now).min()
    }

    // ---- the end ----

    /// Stops the faults: one worker is left, possibly one that was already running.
    async fn calm_down(&mut self) -> Result<(), String> {
        self.is_calm = true;
        self.note(|| "faults stop".to_owned());
        let is_kept = self.random.is(2) && self.workers[self.owner].is_some();
        for index in 0..self.workers.len() {
            self.worker(index, |worker| worker.gate.cut(false));
            if !is_kept || index != self.owner {
                self.crash(index).await;
            }
        }
        self.ledger.calm();
        self.settle().await;
        self.since = Since::begin(kept::all(&*self.store).await?);
        if is_kept {
            // Messages from outside that no worker was notified of are found within a minute.
            return Ok(());
        }
        self.start(0).await?;
        self.settle().await;
        Ok(())
    }

    async fn has_ended(&self) -> bool {
        self.unrest().await.is_none()
    }

    /// Describes what has not ended or is not at rest.
    async fn unrest(&self) -> Option<String> {
        let mut acts = self.plan.acts.iter().zip(&self.stands);
        if let Some((act, _)) = acts.find(|(_, stand)| !matches!(stand, Stand::Acknowledged(_))) {
            return Some(format!("not acknowledged: {act}"));
        }
        for run in self.plan.runs() {
            let instance = self.store.instance(&run).await.ok().flatten();
            match instance.map(|instance| instance.status) {
                Some(status) if status.is_ended() => {}
                status => return Some(format!("run {run} is {}", status.map_or("gone".to_owned(), |s| s.to_string()))),
            }
        }
        let runs = end::all_runs(&*self.store).await.unwrap_or_default();
        if let Some(run) = runs.iter().find(|run| !run.status.is_ended()) {
            return Some(format!("run {} is {}", run.id, run.status));
        }
        let jobs = kept::all(&*self.store).await.unwrap_or_default();
        let mut restless = jobs.iter().filter_map(|kept| Some((&kept.instance, kept.unrest(&self.since)?)));
        restless.next().map(|(job, why)| format!("job {}: {why} ({})", job.id, job.status))
    }

    /// Checks the final state.
    async fn end(&mut self) -> Result<Counts, String> {
        let Some(worker) = &self.workers[self.owner] else { return Err("no worker is left at the end".to_owned()) };
        worker.gate.free();
        let effects = self.ledger.effects();
        self.counts.effects = effects.len() as u64;
        let end = End::of(self.plan, &*self.store, effects, &self.acceptance, &self.since).await?;
        self.counts.runs = end.runs.len() as u64;
        self.counts.events = self.acceptance.events.len() as u64;
        end::check_journals(&end)?;
        end::check_answers(&end, self.plan, &self.stands)?;
        end::check_orders(&end, self.plan)?;
        end::check_replays(&end, &worker.engine).await?;
        self.plan.check_all(&end).map(|()| self.counts)
    }
}
