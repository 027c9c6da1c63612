//! Derives what may be left of the children of a program, from its definition alone.

use outlive::Status;

use crate::simulate::{End, EndedRun};

use super::meaning::{check_effects, check_order};
use super::{Node, Program, Reach};

/// Checks the children of a run: none was started twice, and each ended as it may.
pub(crate) fn check_children(program: &Program, id: &str, end: &End) -> Result<(), String> {
    let parent = &end.runs[id];
    let mut counts = vec![0; program.children.len()];
    let is_child = |other: &str| other.strip_prefix(id).is_some_and(|rest| rest.starts_with(['/', '#']));
    for (child_id, run) in end.runs.iter().filter(|(other, _)| is_child(other)) {
        let child = place_in(child_id).filter(|child| *child < counts.len());
        let child = child.ok_or_else(|| format!("{child_id} is not a child of the program"))?;
        counts[child] += 1;
        let whole = &program.children[child];
        check_effects(whole, child_id, end)?;
        check_order(whole, child_id, end)?;
        check_child(program, (child, run), parent).map_err(|what| format!("{child_id}: {what}"))?;
    }
    let mut most = vec![0; program.children.len()];
    program.body.count_children(1, &mut most);
    match counts.iter().zip(&most).position(|(count, most)| count > most) {
        Some(child) => Err(format!("child {child} was started {} times, not {}", counts[child], most[child])),
        None => Ok(()),
    }
}

fn check_child(program: &Program, (child, run): (usize, &EndedRun), parent: &EndedRun) -> Result<(), String> {
    let whole = &program.children[child];
    match run.status {
        Status::Completed if !whole.fails => {
            let output: Vec<String> = run.output().ok_or("its output is not a list of strings")?;
            let is_so = whole.body.accepts(whole, &output).contains(&output.len());
            if is_so { Ok(()) } else { Err(format!("the child cannot return {output:?}")) }
        }
        Status::Failed if whole.fails => Ok(()),
        Status::Cancelled => {
            let (mut is_detached, mut may_lose) = (false, parent.status == Status::Cancelled);
            program.body.walk(&mut |node| match node {
                Node::Race(..) | Node::Carry(_) => may_lose = true,
                Node::Reach(Reach::Dismiss(other) | Reach::Leave(other)) => may_lose |= *other == child,
                Node::Reach(Reach::Detach(detached)) => is_detached |= *detached == child,
                _ => {}
            });
            if is_detached || !may_lose { Err(format!("it was cancelled: {:?}", run.note)) } else { Ok(()) }
        }
        status => Err(format!("it is {status}: {:?} {:?}", run.outcome, run.note)),
    }
}

/// Returns which child of its program a run is, from the key in its id.
fn place_in(id: &str) -> Option<usize> {
    let (_, key) = id.rsplit_once("child[c")?;
    let (place, rest) = key.split_once(']')?;
    // A child that was named otherwise was started although its id was taken.
    let is_plain = rest.is_empty() || rest.strip_prefix('#').is_some_and(|n| n.parse::<u32>().is_ok());
    place.parse().ok().filter(|_| is_plain)
}
