//! Random workflows whose meaning is known without running them, to test an engine against.

mod care;
mod children;
mod family;
mod give;
mod meaning;
mod perform;
mod race;
mod share;
mod undo;

use std::sync::Arc;

use crate::random::Random;
use crate::simulate::Sim;

use care::Care;
use children::check_children;
use family::Reach;
use give::Give;
pub(crate) use meaning::check;
use perform::Programs;
use share::Share;
use undo::check_undos;

/// A workflow as a syntax tree. Running it returns a list of strings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Step(String),
    /// A step with an undo.
    Undo(String),
    /// A step, followed by a random number and the time.
    Look(String),
    /// Fails this often before it succeeds.
    Flaky(String, u32),
    /// Fails for good; the program continues.
    Failing(String),
    /// Fails every attempt.
    Exhausted(String),
    /// May not run twice.
    Once(String),
    /// Never ends, and has a time limit.
    Hang(String),
    /// Ends, unless its time limit passes first.
    Limited(String),
    /// Fails, and has a fallback.
    Fallback(String),
    Sleep(u64),
    Wait(String),
    /// Waits at most this long.
    WaitFor(String, u64),
    Seq(Vec<Node>),
    Join(Vec<Node>),
    /// Whichever finishes first.
    Race(Box<Node>, Box<Node>),
    /// Two begin and are not polled again until a third is done; then whichever of the two finishes first.
    Carry(Box<[Node; 3]>),
    Loop(u64, Box<Node>),
    /// A step that readies several branches, and one whose name says in which order they continued.
    Shared(Share, String),
    Map(u64, Box<Node>),
    Reach(Reach),
    Care(Care),
    Give(Give),
}

/// A random program, and the signals it needs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) body: Node,
    /// Names of signals, each as often as it may be awaited.
    pub(crate) signals: Vec<String>,
    /// The programs of its children, which have none.
    pub(crate) children: Vec<Program>,
    /// Whether it fails in the end.
    pub(crate) fails: bool,
    /// The parts of its body before which it restarts, if it is not a child.
    pub(crate) restarts: Vec<usize>,
}

/// Describes a world of one or two random programs. Their results, journals and side effects are checked against what
/// the programs mean.
///
/// ```
/// use outlive_testkit::{proof::programs, simulate};
/// simulate(0..100, programs);
/// ```
pub fn programs(sim: &mut Sim) {
    let count = 1 + usize::from(sim.below(3) == 0);
    let programs: Vec<Arc<Program>> = (0..count).map(|_| Arc::new(Program::random(sim.random_mut()))).collect();
    let chance = sim.below(u64::MAX);
    let provided = programs.clone();
    sim.engine(move |engine| {
        let engine = engine.workflow("program", perform::program).workflow("child", perform::child);
        engine.provide(Programs::new(provided.clone(), chance))
    });
    for (index, program) in programs.iter().enumerate() {
        let id = format!("r{index}");
        sim.start("program", &id, &(index, 0, Vec::<String>::new()));
        for (number, name) in program.signals.iter().enumerate() {
            let of_name = program.signals[..=number].iter().filter(|other| *other == name).count();
            sim.signal(&id, name, &format!("{name}:{of_name}"));
        }
        if sim.below(5) == 0 {
            sim.cancel(&id, "enough");
        }
    }
    let workers = sim.random_mut().index(3) + 1;
    sim.workers(workers);
    sim.check(move |end| {
        for (index, program) in programs.iter().enumerate() {
            let id = format!("r{index}");
            let checked = check(program, &id, end).and_then(|()| check_children(program, &id, end));
            checked.map_err(|what| format!("run {id}: {what}: {program:?}"))?;
        }
        end.runs.iter().try_for_each(|(id, run)| check_undos(run).map_err(|what| format!("run {id}: {what}")))?;
        Ok(())
    });
}

impl Program {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mut author = Author { random, names: 0, signals: Vec::new(), children: Vec::new(), is_child: false };
        let length = 1 + author.random.index(4);
        let nodes = (0..length).map(|_| author.node(2, true)).collect();
        let Author { signals, children, .. } = author;
        let fails = random.is(6);
        // A restart ends what is undone by a failure, so a program does one or the other.
        let restarts = (1..length).filter(|_| random.is(4) && !fails).collect();
        Self { body: Node::Seq(nodes), signals, children, fails, restarts }
    }
}

struct Author<'a> {
    random: &'a mut Random,
    names: u32,
    signals: Vec<String>,
    children: Vec<Program>,
    is_child: bool,
}

impl Author<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    /// Creates a node of some depth. Not every node may wait: a signal consumed by a losing branch is gone.
    fn node(&mut self, depth: u32, may_wait: bool) -> Node {
        if depth == 0 || self.random.is(2) {
            return self.leaf(may_wait);
        }
        let some = |this: &mut Self, may_wait| {
            (0..2 + this.random.index(2)).map(|_| this.node(depth - 1, may_wait)).collect::<Vec<_>>()
        };
        match self.random.index(7) {
            0 => Node::Seq(some(self, may_wait)),
            1 => Node::Join(some(self, may_wait)),
            2 => {
                // A wait alone gives its signal back when it loses; one inside a longer branch may have consumed it.
                let branch = |this: &mut Self| match this.random.index(3) {
                    0 => Node::Seq(some(this, false)),
                    _ => this.leaf(may_wait),
                };
                Node::Race(Box::new(branch(self)), Box::new(branch(self)))
            }
            3 => Node::Loop(1 + self.random.next() % 3, Box::new(self.leaf(false))),
            4 => Node::Shared(self.random.pick(&Share::ALL), self.name()),
            5 => Node::Carry(Box::new([self.leaf(false), self.leaf(false), self.leaf(false)])),
            _ => Node::Map(1 + self.random.next() % 3, Box::new(self.leaf(false))),
        }
    }

    fn leaf(&mut self, may_wait: bool) -> Node {
        if !self.is_child && self.random.is(8) {
            return Node::Reach(self.reach());
        }
        if self.random.is(8) {
            return Node::Care(self.care());
        }
        if self.random.is(8) {
            return Node::Give(match self.random.index(3) {
                0 => Give::Publish(self.name()),
                1 => Give::Append(self.name()),
                _ => Give::Say(self.name(), u32::from(self.random.is(2))),
            });
        }
        if self.random.is(8) {
            return Node::Undo(self.name());
        }
        match self.random.index(if may_wait { 15 } else { 12 }) {
            0..=2 => Node::Step(self.name()),
            3 => Node::Flaky(self.name(), 1 + u32::from(self.random.is(2))),
            4 => Node::Failing(self.name()),
            5 => Node::Exhausted(self.name()),
            6 => Node::Once(self.name()),
            7 => Node::Hang(self.name()),
            8 => Node::Limited(self.name()),
            9 => Node::Fallback(self.name()),
            10 => Node::Sleep(self.random.next() % 100_000),
            11 => Node::Look(self.name()),
            12 | 13 => Node::Wait(self.signal()),
            _ => Node::WaitFor(self.signal(), 1 + self.random.next() % 10_000),
        }
    }

    fn care(&mut self) -> Care {
        let times = u32::from(self.random.is(2)) + u32::from(self.random.is(2));
        match self.random.index(5) {
            0 | 1 => Care::Beat(self.name(), times),
            2 => Care::Silent(self.name()),
            _ => Care::Guarded(self.name(), times),
        }
    }

    fn reach(&mut self) -> Reach {
        match self.random.index(9) {
            0..=2 => Reach::Run(self.child(true)),
            3 => Reach::Spawn(self.child(true), Box::new(self.leaf(false))),
            4 => Reach::Detach(self.child(true)),
            5 => Reach::Dismiss(self.child(false)),
            6 => {
                let body = Node::Wait("never".to_owned());
                self.add_child(body, false);
                Reach::Leave(self.children.len() - 1)
            }
            7 => Reach::Tell(self.name()),
            _ => Reach::Lose(self.name()),
        }
    }

    /// Creates a child and returns its place.
    fn child(&mut self, may_fail: bool) -> usize {
        self.is_child = true;
        let body = Node::Seq((0..1 + self.random.index(2)).map(|_| self.leaf(false)).collect());
        self.is_child = false;
        let fails = may_fail && self.random.is(4);
        self.add_child(body, fails);
        self.children.len() - 1
    }

    fn add_child(&mut self, body: Node, fails: bool) {
        let (signals, children, restarts) = (Vec::new(), Vec::new(), Vec::new());
        self.children.push(Program { body, signals, children, fails, restarts });
    }

    fn signal(&mut self) -> String {
        let name = self.random.pick(&["s", "t"]).to_owned();
        self.signals.push(name.clone());
        name
    }
}
