//! Nodes that reach other runs: children, and signals. What each does, and what it may return.

use std::collections::BTreeSet;

use outlive::prelude::*;

use super::{Node, Program};

/// A node that reaches another run. A child is named by its place among the children of the program.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reach {
    /// Runs a child and returns what it returns.
    Run(usize),
    /// Starts a child, does something else, then returns what both return.
    Spawn(usize, Box<Node>),
    /// Starts a child that does not end with its parent, and continues.
    Detach(usize),
    /// Starts a child that waits for a signal nobody sends, and continues: it ends with its parent.
    Leave(usize),
    /// Starts a child, cancels it and waits for its end.
    Dismiss(usize),
    /// Signals itself, and waits for the signal.
    Tell(String),
    /// Signals a run that does not exist, between two that are sent to itself at the same time.
    Lose(String),
}

impl Reach {
    pub(super) fn child(&self) -> Option<usize> {
        match self {
            Self::Run(child) | Self::Spawn(child, _) | Self::Detach(child) => Some(*child),
            Self::Leave(child) | Self::Dismiss(child) => Some(*child),
            Self::Tell(_) | Self::Lose(_) => None,
        }
    }

    /// Returns how many items of the list this may have produced.
    pub(super) fn accepts(&self, program: &Program, output: &[String]) -> BTreeSet<usize> {
        let is_next = |text: String| output.first().filter(|first| **first == text).map(|_| 1).into_iter().collect();
        let result = |child: usize, output: &[String]| -> BTreeSet<usize> {
            match &program.children[child] {
                Program { fails: true, .. } => {
                    output.first().filter(|first| **first == failed(child)).map(|_| 1).into_iter().collect()
                }
                whole => whole.body.accepts(whole, output),
            }
        };
        match self {
            Self::Run(child) => result(*child, output),
            Self::Spawn(child, meanwhile) => {
                let after = |at: usize| result(*child, &output[at..]).into_iter().map(move |more| at + more);
                meanwhile.accepts(program, output).into_iter().flat_map(after).collect()
            }
            Self::Detach(_) | Self::Leave(_) => BTreeSet::from([0]),
            Self::Dismiss(child) => is_next(format!("c{child} dismissed")),
            Self::Tell(name) => is_next(format!("{name} told")),
            Self::Lose(name) => is_next(format!("{name} lost")),
        }
    }
}

fn failed(child: usize) -> String {
    format!("c{child} failed")
}

/// The workflow of children: the program with this index has it at this place.
pub(super) const CHILD: Workflow<(usize, usize), Vec<String>> = Workflow::new("child");

/// Performs a node. `meanwhile` performs what is done while a child runs.
pub(super) async fn reach<F>(ctx: Ctx, node: &Reach, meanwhile: impl FnOnce(Ctx) -> F) -> Result<Vec<String>>
where
    F: Future<Output = Result<Vec<String>>>,
{
    let index = parent_index(&ctx);
    match node {
        Reach::Run(child) => result(*child, ctx.run(CHILD, &(index, *child)).key(format!("c{child}")).await),
        Reach::Spawn(child, _) => {
            let handle = ctx.spawn(CHILD, &(index, *child)).key(format!("c{child}")).await?;
            let mut all = meanwhile(ctx.scope("meanwhile")).await?;
            all.extend(result(*child, handle.result().await)?);
            Ok(all)
        }
        Reach::Detach(child) => {
            ctx.spawn(CHILD, &(index, *child)).key(format!("c{child}")).detach().await?;
            Ok(Vec::new())
        }
        Reach::Leave(child) => {
            ctx.spawn(CHILD, &(index, *child)).key(format!("c{child}")).await?;
            Ok(Vec::new())
        }
        Reach::Dismiss(child) => {
            let handle = ctx.spawn(CHILD, &(index, *child)).key(format!("c{child}")).await?;
            handle.cancel("dismissed").await?;
            match handle.result().await {
                Err(Error::Cancelled { reason }) => Err(Error::Cancelled { reason }.into()),
                Ok(_) | Err(Error::Child { .. }) => Ok(vec![format!("c{child} dismissed")]),
                Err(other) => Err(other.into()),
            }
        }
        Reach::Tell(name) => {
            ctx.signal(&ctx.info().id, name, name).await?;
            Ok(vec![format!("{} told", ctx.wait::<String>(name).await?)])
        }
        Reach::Lose(name) => {
            let id = &ctx.info().id;
            let (one, lost, other) = tokio::join!(
                ctx.signal(id, name, name).key("one"),
                ctx.signal("nobody", name, name),
                ctx.signal(id, name, name).key("other"),
            );
            one.and(other)?;
            match lost {
                Err(Error::NotFound { .. }) => {
                    for _ in 0..2 {
                        ctx.wait::<String>(name).await?;
                    }
                    Ok(vec![format!("{name} lost")])
                }
                other => Err(format!("a signal to nobody gave {other:?}").into()),
            }
        }
    }
}

fn result(child: usize, result: Result<Vec<String>, Error>) -> Result<Vec<String>> {
    match result {
        Err(Error::Child { failure, .. }) if failure.to_string() == "no" => Ok(vec![failed(child)]),
        other => Ok(other?),
    }
}

/// Returns the index of the program of a run, whose id is `r` and the index.
fn parent_index(ctx: &Ctx) -> usize {
    ctx.info().id[1..].parse().unwrap_or(0)
}
