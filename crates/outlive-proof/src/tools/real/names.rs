//! A second executor on the same file under another name is refused; one that gets in anyway stops the first.

use std::fs;

use outlive::Workflow;
use outlive::prelude::*;

use crate::tools::real::stage::{Role, Stage, until};

const FAR: Workflow<(), ()> = Workflow::new("far");

async fn far(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("1 hour").await?)
}

/// Executes, waits for a run that does not end, and prints what it gets instead.
pub(super) async fn execute(role: &Role) -> Result<(), BoxError> {
    let engine = Engine::open(role.store()).workflow("far", far).start().await?;
    let run = engine.start(far, &()).id("far").await?;
    role.say("ready");
    let waited = run.result().await.map_err(|error| error.code());
    let started = engine.start(far, &()).await.map(drop).map_err(|error| error.code());
    role.say(&format!("{waited:?} {started:?}"));
    Ok(())
}

pub(super) async fn play(stage: &Stage) -> Result<String, BoxError> {
    let mut first = stage.process("first")?;
    let (link, other) = (stage.folder().join("link.db"), stage.folder().join("other.db"));
    #[cfg(unix)]
    std::os::unix::fs::symlink(stage.store(), &link)?;
    if cfg!(unix) {
        refused(&link, "locked").await?;
        fs::hard_link(stage.store(), &other)?;
        refused(&other, "store").await?;
        refused(&stage.store(), "store").await?;
        fs::remove_file(&other)?;
        fs::rename(stage.store(), &other)?;
        refused(&other, "locked").await?;
        fs::rename(&other, stage.store())?;
    }
    let lock = stage.folder().join("shop.db.lock");
    fs::remove_file(&lock)?;
    until("a removed lock file is recreated", async || {
        Ok(if lock.exists() { Ok(()) } else { Err("it is missing".to_owned()) })
    })
    .await?;
    refused(&stage.store(), "locked").await?;

    // The lock file is recreated within moments, so it takes some luck to get in between.
    let second = until("a second executor gets in while the lock file is gone for a moment", async || {
        let _ = fs::remove_file(&lock);
        Ok(Engine::open(stage.store()).workflow("far", far).start().await.map_err(|error| error.to_string()))
    })
    .await?;
    let said = first.line()?;
    if said != r#"Err("fenced") Err("fenced")"# {
        return Err(format!("the first executor, which is fenced, got {said} from its wait and its start").into());
    }
    let run = second.start(FAR, &()).id("after").await?;
    until("the second executor continues", async || {
        let status = run.status().await?;
        Ok(if status.is_idle() { Ok(()) } else { Err(format!("its run is {status}")) })
    })
    .await?;
    second.shutdown().await?;
    Ok("4 other names and a new one were refused; a fenced executor stopped, and the one that fenced it continued"
        .to_owned())
}

/// Checks that a second executor on this path is refused with this code.
async fn refused(path: &std::path::Path, code: &str) -> Result<(), BoxError> {
    match Engine::open(path).workflow("far", far).start().await {
        Ok(_) => Err(format!("a second executor started on {}", path.display()).into()),
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(format!("a second executor on {} got {error:?}", path.display()).into()),
    }
}
