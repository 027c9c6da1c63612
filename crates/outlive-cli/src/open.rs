//! Opens an existing store, and a run or job in it: a mistyped path never creates a store.

use std::io;
use std::path::{Path, PathBuf};

use outlive::job::{AnyJob, JobKind};
use outlive::{Client, Run};
use outlive_sqlite::Executor;
use serde_json::Value;

use crate::error::CliError;

/// The note about a store that no process executes.
pub(crate) const NOBODY: &str = "no process is executing this store";

/// A run of any workflow.
pub(crate) type AnyRun = Run<Value>;

/// The argument that names a store.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Store: the file that your program opens with `Engine::open`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// The arguments that name a run.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Run id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

impl StoreArgs {
    /// Returns the absolute path of the file, which may be a store or an export.
    pub(crate) fn path(&self) -> Result<PathBuf, CliError> {
        check(&self.file)?;
        let text = self.file.to_str().unwrap_or_default();
        let path = text.strip_prefix("sqlite:").map_or(&*self.file, Path::new);
        std::path::absolute(path).map_err(|error| CliError::message(format!("{path:?} is not a file name: {error}")))
    }

    /// Opens the store for writing.
    pub(crate) fn open(&self) -> Result<Client, CliError> {
        check(&self.file)?;
        Ok(Client::open(&self.file)?)
    }

    /// Opens the store read-only, which also works where nothing can be written.
    pub(crate) fn read(&self) -> Result<Client, CliError> {
        check(&self.file)?;
        Ok(Client::open_read_only(&self.file)?)
    }

    /// Returns whether a process executes the store now, or `None` if that is not known.
    pub(crate) fn is_executed(&self) -> Option<bool> {
        match Executor::of(&self.path().ok()?) {
            Executor::Nobody => Some(false),
            Executor::Process { .. } => Some(true),
            _ => None,
        }
    }

    /// Describes the effect of a message: `now` if a process executes the store, else `later`, with a note that it
    /// waits.
    pub(crate) fn outlook(&self, now: &str, later: &str) -> String {
        match self.is_executed() {
            Some(false) => format!("{later}; {NOBODY}, so this waits until one does"),
            _ => now.to_owned(),
        }
    }

    /// Returns the path of the file. Refuses anything that is not a file.
    pub(crate) fn file(&self) -> Result<PathBuf, CliError> {
        check(&self.file)?;
        let text = self.file.to_str().unwrap_or_default();
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            return Err(CliError::message(format!("{text:?} is not a file; pass a store that a program has created")));
        }
        Ok(text.strip_prefix("sqlite:").map_or_else(|| self.file.clone(), PathBuf::from))
    }
}

impl RunArgs {
    pub(crate) async fn open(&self) -> Result<AnyRun, CliError> {
        self.check_run()?;
        self.open_any().await
    }

    /// Opens it read-only.
    pub(crate) async fn read(&self) -> Result<AnyRun, CliError> {
        self.check_run()?;
        Ok(self.store.read()?.get_run(&self.id).await?)
    }

    fn check_run(&self) -> Result<(), CliError> {
        if !self.is_job() {
            return Ok(());
        }
        let way_out = "`outlive job` shows it, `outlive terminate` ends it";
        Err(CliError::message(format!("{:?} is an instance of a job, not a run; {way_out}", self.id)))
    }

    /// Opens it, whether it is a run or an instance of a job.
    pub(crate) async fn open_any(&self) -> Result<AnyRun, CliError> {
        Ok(self.store.open()?.get_run(&self.id).await?)
    }

    pub(crate) fn is_job(&self) -> bool {
        kind(&self.id).is_some()
    }
}

/// Returns the kind of job that a name starts with, if any.
pub(crate) fn kind(text: &str) -> Option<JobKind> {
    JobKind::from_text(text.split_once(':')?.0)
}

/// The arguments that name an instance of a job.
#[derive(clap::Args, Debug)]
pub(crate) struct InstanceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Job instance, such as task:orders:42; for a pool, pool:NAME
    #[arg(value_name = "KIND:NAME:ID")]
    pub(crate) instance: String,
}

/// An instance of a job, and the client to access it.
pub(crate) struct OpenedInstance {
    client: Client,
    pub(crate) job: AnyJob,
    pub(crate) id: String,
}

impl InstanceArgs {
    pub(crate) fn open(&self) -> Result<OpenedInstance, CliError> {
        open_instance(self.store.open()?, &self.instance)
    }

    /// Opens it read-only.
    pub(crate) fn read(&self) -> Result<OpenedInstance, CliError> {
        open_instance(self.store.read()?, &self.instance)
    }
}

pub(crate) fn open_instance(client: Client, instance: &str) -> Result<OpenedInstance, CliError> {
    let (job, id) = match instance.match_indices(':').nth(1) {
        Some((colon, _)) => (client.job_by_name(&instance[..colon])?, instance[colon + 1..].to_owned()),
        None => (client.job_by_name(instance)?, String::new()),
    };
    match (job.kind(), id.as_str()) {
        (JobKind::Pool, "") => Ok(OpenedInstance { client, job, id: "main".into() }),
        (JobKind::Pool, other) if other != "main" => Err(CliError::message(format!(
            "a pool has one queue and no instances; write {:?} without {other:?}",
            job.name()
        ))),
        (_, "") => Err(CliError::message(format!(
            "{instance:?} is a job; name an instance of it as {0}:ID (`outlive jobs FILE {0}` lists them)",
            job.name()
        ))),
        _ => Ok(OpenedInstance { client, job, id }),
    }
}

impl OpenedInstance {
    /// Returns the full name of the instance.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.job.name(), self.id)
    }

    /// Converts an error of the library. If there is no such job, lists the existing ones.
    pub(crate) async fn explain(&self, error: outlive::Error) -> CliError {
        match error.is_not_found() {
            true => explain(&self.client, &self.job, error).await,
            false => error.into(),
        }
    }
}

/// Converts the error for a job that is not found: if the store has no such job, lists the existing ones.
pub(crate) async fn explain(client: &Client, job: &AnyJob, error: outlive::Error) -> CliError {
    let Ok(jobs) = client.jobs().await else { return error.into() };
    let names: Vec<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
    match (names.contains(&job.name()), names.is_empty()) {
        (true, _) => error.into(),
        (false, true) => CliError::message(format!("there is no job {:?} in this store; it has no jobs", job.name())),
        (false, false) => {
            CliError::message(format!("there is no job {:?} in this store; there are {}", job.name(), names.join(", ")))
        }
    }
}

/// Refuses a path for which the library would create a new store.
fn check(place: &Path) -> Result<(), CliError> {
    let text = place.to_str().unwrap_or_default();
    if text == "memory:" {
        return Err(CliError::message("a \"memory:\" store exists only in its own process; name a file"));
    }
    if text.is_empty() || text.starts_with("postgres:") || text.starts_with("postgresql:") {
        return Ok(()); // The library reports what is wrong with these.
    }
    let path = text.strip_prefix("sqlite:").map_or(place, Path::new);
    match path.metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => Err(CliError::message(format!(
            "no such store: {path:?} is an empty file; pass one that a program has created"
        ))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CliError::message(format!(
            "no such store: {path:?} does not exist; pass a file that a program has created with `Engine::open`"
        ))),
        Err(error) => Err(CliError::message(format!("cannot open store {path:?}: {error}"))),
    }
}
