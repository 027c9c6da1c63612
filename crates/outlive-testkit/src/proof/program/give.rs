//! What programs give out: values, items of a stream, and items that the attempts of a step append.

use outlive::prelude::*;

use crate::simulate::EndedRun;
use outlive_core::output::{Output, OutputKind};

/// Something that a program gives out. None of it is part of its result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Give {
    /// A value, under a name that others use too.
    Publish(String),
    /// An item of the stream that all share.
    Append(String),
    /// A step that appends two items, and fails this often in between.
    Say(String, u32),
}

/// The stream that all append to.
const STREAM: &str = "log";

pub(super) async fn give(ctx: &Ctx, node: &Give) -> Result<Vec<String>> {
    match node {
        Give::Publish(name) => ctx.publish("state", name).await?,
        Give::Append(name) => ctx.append(STREAM, name).await?,
        Give::Say(name, failures) => {
            let body = |attempt: Attempt| async move {
                attempt.append(STREAM, &format!("{name} begins")).await?;
                if attempt.number <= *failures {
                    return Err("no".into());
                }
                attempt.append(STREAM, &format!("{name} ends")).await?;
                outlive::Ok(())
            };
            ctx.step(name, body).retry(Retry::times(4).constant("1 s")).await?;
        }
    }
    Ok(Vec::new())
}

/// Checks that the items of each attempt that counts are complete and in order.
pub(super) fn check_said(run: &EndedRun) -> Result<(), String> {
    let is_said =
        |output: &&Output| output.key.kind == OutputKind::Item && output.origin.is_some() && !output.is_failed;
    let said: Vec<&Output> = run.outputs.iter().filter(is_said).collect();
    for first in &said {
        let of: Vec<_> = said.iter().filter(|item| item.origin == first.origin).collect();
        let texts: Vec<String> = of.iter().filter_map(|item| item.payload.decode().ok()).collect();
        let is_whole = matches!(&texts[..], [begins, ends] if begins.ends_with(" begins") && ends.ends_with(" ends"));
        if !is_whole {
            return Err(format!("an attempt that counts appended {texts:?}"));
        }
    }
    Ok(())
}
