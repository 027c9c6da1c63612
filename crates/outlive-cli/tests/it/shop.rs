//! A store that this process executes, and the commands run against it.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use outlive::prelude::*;
use serde_json::Value;
use tokio::process::Command;

/// The program under test.
pub(crate) const OUTLIVE: &str = env!("CARGO_BIN_EXE_outlive");

/// A store with an engine in this process.
pub(crate) struct Shop {
    pub(crate) engine: Engine,
    folder: tempfile::TempDir,
}

/// A store that is not executed.
pub(crate) struct Closed {
    folder: tempfile::TempDir,
}

impl Closed {
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }
}

/// The result of a command.
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Charges, waits for an approval, ships.
pub(crate) async fn order(ctx: Ctx, item: String) -> Result<String> {
    let paid: u32 = ctx
        .step("charge card", |attempt: Attempt| async move {
            if attempt.is_retry { Ok(7) } else { Err(BoxError::from("the bank does not answer")) }
        })
        .retry(Retry::times(2).constant("20 ms"))
        .await?;
    let by: String = ctx.wait("approval").await?;
    Ok(format!("{item} for {paid}, approved by {by}"))
}

/// Fails at once.
pub(crate) async fn doomed(ctx: Ctx, _: ()) -> Result<()> {
    ctx.step("burn", || async { Err::<(), _>(BoxError::from("it burnt")) }).await?;
    Ok(())
}

/// Sleeps for a day.
pub(crate) async fn nap(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("1 day").await?)
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(|engine| engine).await
    }

    /// Opens a shop whose engine also has jobs or other additions.
    pub(crate) async fn with(more: impl FnOnce(outlive::Builder) -> outlive::Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path().join("shop.db"))
            .version("2026-11-16")
            .workflow("order", order)
            .workflow("doomed", doomed)
            .workflow("nap", nap);
        let engine = more(engine).start().await.unwrap();
        Self { engine, folder }
    }

    /// Shuts the engine down, so the store is no longer executed.
    pub(crate) async fn stop(self) -> Closed {
        self.engine.shutdown().await.unwrap();
        Closed { folder: self.folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// Starts a run of `order` that waits for its approval.
    pub(crate) async fn waiting_order(&self, id: &str) -> Run<String> {
        let run = self.engine.start(order, &"a tent".to_owned()).id(id).await.unwrap();
        wait_for(&run, StatusKind::Waiting, |status| status == Status::Waiting { until: None }).await;
        run
    }

    /// Starts a run of `doomed` and waits until it has failed.
    pub(crate) async fn failed_run(&self, id: &str) -> Run<()> {
        let run = self.engine.start(doomed, &()).id(id).await.unwrap();
        run.result().await.unwrap_err();
        run
    }

    /// Runs the command, with the store's file after its first word.
    pub(crate) async fn tell(&self, words: &[&str]) -> Told {
        let file = self.file();
        let mut all = vec![words[0], file.to_str().unwrap()];
        all.extend(&words[1..]);
        tell(&all).await
    }

    /// Does the same and returns the JSON output.
    pub(crate) async fn ask(&self, words: &[&str]) -> Value {
        let mut words = words.to_vec();
        words.extend(["-o", "json"]);
        let told = self.tell(&words).await;
        assert_eq!(told.code, Some(0), "{}", told.err);
        serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{error} in {}", told.out))
    }
}

/// Waits until the status of a run satisfies the condition.
pub(crate) async fn wait_for<O>(run: &Run<O>, kind: StatusKind, is_it: impl Fn(Status) -> bool) {
    let look = async {
        loop {
            let status = run.status().await.unwrap();
            if status.kind() == kind && is_it(status) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), look).await.unwrap();
}

/// Runs a command.
pub(crate) async fn tell(words: &[&str]) -> Told {
    let output = Command::new(OUTLIVE).args(words).stdin(Stdio::null()).output().await.unwrap();
    output.into()
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Told {
    /// Returns the output of a command that succeeded.
    pub(crate) fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns the one line on stderr of a command that failed.
    pub(crate) fn error(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(1), ""), "{}", self.err);
        assert!(self.err.starts_with("error: ") && self.err.lines().count() == 1, "{}", self.err);
        self.err
    }
}
