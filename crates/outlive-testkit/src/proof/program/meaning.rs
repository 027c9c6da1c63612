//! Derives what a program may return, and may do on the way, from its definition alone.

use std::collections::{BTreeMap, BTreeSet};

use outlive::{EntryKind, Status};

use crate::simulate::{Effect, End, EndedRun};

use super::give::check_said;
use super::{Node, Program, Reach};

/// Checks the final state of a run against what its program means.
pub(crate) fn check(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let run = &end.runs[id];
    check_effects(program, id, end)?;
    check_order(program, id, end)?;
    check_losers(program, id, end)?;
    check_shared(program, id, end)?;
    check_said(run)?;
    match run.status {
        Status::Completed if !program.fails => {
            let output: Vec<String> = run.output().ok_or("its output is not a list of strings")?;
            if !program.body.accepts(program, &output).contains(&output.len()) {
                return Err(format!("the program cannot return {output:?}"));
            }
            check_signals(program, &output)
        }
        Status::Cancelled => Ok(()),
        Status::Failed if program.fails => Ok(()),
        status => Err(format!("it is {status}: {:?} {:?}", run.outcome, run.note)),
    }
}

impl Node {
    /// Returns how many items of the list this node may have produced.
    pub(super) fn accepts(&self, program: &Program, output: &[String]) -> BTreeSet<usize> {
        let is_next = |texts: &[String]| match output.first() {
            Some(first) if texts.contains(first) => BTreeSet::from([1]),
            _ => BTreeSet::new(),
        };
        match self {
            Self::Step(name) | Self::Undo(name) | Self::Flaky(name, _) => is_next(std::slice::from_ref(name)),
            Self::Look(name) => {
                let is_so = output.first().is_some_and(|text| text.starts_with(&format!("{name} saw ")));
                if is_so { BTreeSet::from([1]) } else { BTreeSet::new() }
            }
            Self::Shared(_, name) => {
                let is_so = output.first().is_some_and(|text| text.starts_with(&format!("{name} readied ")));
                if is_so { BTreeSet::from([1]) } else { BTreeSet::new() }
            }
            Self::Failing(name) => is_next(&[format!("{name} failed")]),
            Self::Exhausted(name) => is_next(&[format!("{name} exhausted")]),
            Self::Once(name) => is_next(&[name.clone(), format!("{name} interrupted")]),
            Self::Hang(name) => is_next(&[format!("{name} timed out")]),
            Self::Limited(name) => is_next(&[name.clone(), format!("{name} timed out")]),
            Self::Fallback(name) => is_next(&[format!("{name} fell back")]),
            Self::Sleep(_) | Self::Give(_) => BTreeSet::from([0]),
            Self::Wait(name) | Self::WaitFor(name, _) => {
                let may_end = matches!(self, Self::WaitFor(..));
                let is_so = |text: &String| {
                    text.strip_prefix(name).is_some_and(|rest| rest.starts_with(':') || may_end && rest == " timed out")
                };
                if output.first().is_some_and(is_so) { BTreeSet::from([1]) } else { BTreeSet::new() }
            }
            Self::Seq(nodes) | Self::Join(nodes) => all(program, nodes.iter(), output),
            Self::Race(one, other) => &one.accepts(program, output) | &other.accepts(program, output),
            Self::Carry(parts) => {
                let [one, other, then] = &**parts;
                &all(program, [then, one].into_iter(), output) | &all(program, [then, other].into_iter(), output)
            }
            Self::Loop(times, node) | Self::Map(times, node) => all(program, (0..*times).map(|_| &**node), output),
            Self::Reach(reach) => reach.accepts(program, output),
            Self::Care(care) => care.accepts(output),
        }
    }

    /// Returns the name of the step, if this node is one.
    fn step(&self) -> Option<&str> {
        match self {
            Self::Step(name) | Self::Look(name) | Self::Flaky(name, _) | Self::Failing(name) => Some(name),
            Self::Undo(name) => Some(name),
            Self::Exhausted(name) | Self::Once(name) | Self::Hang(name) => Some(name),
            Self::Limited(name) | Self::Fallback(name) => Some(name),
            Self::Care(care) => Some(care.attempts().0),
            _ => None,
        }
    }

    pub(super) fn walk<'a>(&'a self, seen: &mut impl FnMut(&'a Node)) {
        seen(self);
        match self {
            Self::Seq(nodes) | Self::Join(nodes) => nodes.iter().for_each(|node| node.walk(seen)),
            Self::Race(one, other) => [one, other].into_iter().for_each(|node| node.walk(seen)),
            Self::Carry(nodes) => nodes.iter().for_each(|node| node.walk(seen)),
            Self::Loop(_, node) | Self::Map(_, node) => node.walk(seen),
            Self::Reach(Reach::Spawn(_, node)) => node.walk(seen),
            _ => {}
        }
    }

    /// Adds how often each child may be started, if this node is performed this often.
    pub(super) fn count_children(&self, times: usize, most: &mut [usize]) {
        match self {
            Self::Loop(more, node) | Self::Map(more, node) => {
                node.count_children(times * usize::try_from(*more).unwrap_or(1), most);
            }
            Self::Seq(nodes) | Self::Join(nodes) => nodes.iter().for_each(|node| node.count_children(times, most)),
            Self::Race(one, other) => [one, other].into_iter().for_each(|node| node.count_children(times, most)),
            Self::Carry(nodes) => nodes.iter().for_each(|node| node.count_children(times, most)),
            Self::Reach(reach) => {
                reach.child().into_iter().for_each(|child| most[child] += times);
                if let Reach::Spawn(_, node) = reach {
                    node.count_children(times, most);
                }
            }
            _ => {}
        }
    }
}

/// Matches the nodes one after the other.
fn all<'a>(program: &Program, nodes: impl Iterator<Item = &'a Node>, output: &[String]) -> BTreeSet<usize> {
    nodes.fold(BTreeSet::from([0]), |from, node| {
        from.into_iter()
            .flat_map(|at| node.accepts(program, &output[at..]).into_iter().map(move |more| at + more))
            .collect()
    })
}

/// Checks that each signal is consumed once and, where no waits run concurrently, in order and without a gap: a wait
/// that did not consume a signal gave it back.
fn check_signals(program: &Program, output: &[String]) -> Result<(), String> {
    let mut consumed: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for text in output {
        if let Some((name, number)) = text.split_once(':') {
            consumed.entry(name).or_default().push(number.parse().unwrap_or(0));
        }
    }
    let mut abreast = BTreeSet::new();
    program.body.walk(&mut |node| {
        if matches!(node, Node::Join(_)) {
            node.walk(&mut |inner| {
                if let Node::Wait(name) | Node::WaitFor(name, _) = inner {
                    abreast.insert(name.as_str());
                }
            });
        }
    });
    for (name, numbers) in consumed {
        let distinct: BTreeSet<_> = numbers.iter().collect();
        if distinct.len() < numbers.len() {
            return Err(format!("a signal {name} was consumed twice: {output:?}"));
        }
        if !abreast.contains(name) && !numbers.iter().copied().eq(1..=numbers.len()) {
            return Err(format!("signals {name} were consumed out of order or lost: {output:?}"));
        }
    }
    Ok(())
}

/// Checks how often step bodies ran.
pub(super) fn check_effects(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let mut tried: BTreeMap<&str, BTreeMap<(&str, u32), u32>> = BTreeMap::new();
    for effect in end.effects.iter().filter(|effect| effect.run == id) {
        let by_key = tried.entry(&effect.step).or_default();
        *by_key.entry((&effect.idempotency_key, effect.attempt)).or_default() += 1;
    }
    let mut broken = None;
    program.body.walk(&mut |node| {
        let (name, attempts_max, is_once) = match node {
            Node::Step(name) | Node::Undo(name) | Node::Look(name) | Node::Failing(name) => (name, 1, false),
            Node::Limited(name) | Node::Fallback(name) => (name, 1, false),
            Node::Flaky(name, times) => (name, times + 1, false),
            Node::Exhausted(name) => (name, 2, false),
            Node::Once(name) => (name, 1, true),
            Node::Hang(name) => (name, 1, false),
            Node::Care(care) => {
                let (name, attempts_max) = care.attempts();
                (name, attempts_max, false)
            }
            _ => return,
        };
        for ((key, attempt), times) in tried.get(name.as_str()).into_iter().flatten() {
            if *attempt > attempts_max || (is_once && *times > 1) {
                broken = Some(format!("attempt {attempt} of {key} ran {times} times"));
            }
        }
    });
    broken.map_or(Ok(()), Err)
}

/// Checks that a step begins only when the result of the one before it is durable.
pub(super) fn check_order(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let mut broken = Ok(());
    program.body.walk(&mut |node| {
        let Node::Seq(nodes) = node else { return };
        for pair in nodes.windows(2) {
            let [Node::Step(one) | Node::Flaky(one, _), next] = pair else { continue };
            let (Node::Step(next) | Node::Flaky(next, _) | Node::Once(next) | Node::Failing(next)) = next else {
                continue;
            };
            let early = end.effects.iter().find(|effect| {
                effect.run == id && effect.step == *next && !is_durable(&end.runs[id], one, effect.after)
            });
            if let Some(early) = early {
                broken = Err(format!("{next} began before {one} was durable: {early:?}"));
            }
        }
    });
    broken
}

/// Checks that no step of a branch begins in a process that was given a journal in which the other branch has won.
fn check_losers(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let mut broken = Ok(());
    program.body.walk(&mut |node| {
        let Node::Race(one, other) = node else { return };
        for (winner, loser) in [(one, other), (other, one)] {
            let Some(won) = winner.step().and_then(|step| end_of(&end.runs[id], step)) else { continue };
            loser.walk(&mut |node| {
                let late = |effect: &&Effect| {
                    effect.run == id && node.step() == Some(effect.step.as_str()) && effect.replayed >= won
                };
                if let Some(late) = end.effects.iter().find(late) {
                    broken = Err(format!("a step began although entry {won} had ended its race: {late:?}"));
                }
            });
        }
    });
    broken
}

/// Checks that branches readied together continue in the same order in every replay: no second order is recorded.
fn check_shared(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let mut broken = Ok(());
    program.body.walk(&mut |node| {
        let Node::Shared(_, name) = node else { return };
        let named = format!("step:{name} readied ");
        let journal = end.runs[id].journal.iter();
        let orders: BTreeSet<&str> = journal.filter_map(|entry| Some(entry.op.split_once(&named)?.1)).collect();
        if orders.len() > 1 {
            broken = Err(format!("branches readied by {name} continued in several orders: {orders:?}"));
        }
    });
    broken
}

/// Returns the sequence number of the entry with which a step ended.
fn end_of(run: &EndedRun, step: &str) -> Option<u64> {
    let op = format!("step:{step}");
    run.journal.iter().find(|entry| entry.kind.is_outcome() && entry.op.ends_with(&op)).map(|entry| entry.seq)
}

fn is_durable(run: &EndedRun, step: &str, after: u64) -> bool {
    let label = format!("{step:?}");
    run.journal.iter().any(|entry| {
        entry.kind == EntryKind::StepDone
            && entry.seq <= after
            && entry.payload.as_ref().is_some_and(|payload| payload.as_str() == label)
    })
}
