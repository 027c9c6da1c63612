//! Opening a store that is there: a command never makes one by a slip of the pen.

use std::io;
use std::path::{Path, PathBuf};

use outlive::job::{AnyJob, JobKind};
use outlive::{Client, Run};
use outlive_sqlite::Executor;
use serde_json::Value;

use crate::error::Error;

/// Said of a store that no process executes.
pub(crate) const NOBODY: &str = "no process executes this store now";

/// A run of any workflow.
pub(crate) type AnyRun = Run<Value>;

/// The store a command is about.
#[derive(clap::Args, Debug)]
pub(crate) struct StoreArgs {
    /// The store: the file that the program opens with `Engine::open`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// The run a command is about.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The run's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

impl StoreArgs {
    /// The file by its absolute name: a store, or what may be an export.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        check(&self.file)?;
        let text = self.file.to_str().unwrap_or_default();
        let path = text.strip_prefix("sqlite:").map_or(&*self.file, Path::new);
        std::path::absolute(path).map_err(|error| Error::said(format!("{path:?} is not the name of a file: {error}")))
    }

    /// Opens the store to send to it.
    pub(crate) fn open(&self) -> Result<Client, Error> {
        check(&self.file)?;
        Ok(Client::open(&self.file)?)
    }

    /// Opens the store to read it, also where nothing can be written.
    pub(crate) fn read(&self) -> Result<Client, Error> {
        check(&self.file)?;
        Ok(Client::open_read_only(&self.file)?)
    }

    /// Whether a process executes the store now; `None` if that cannot be found out.
    pub(crate) fn is_executed(&self) -> Option<bool> {
        match Executor::of(&self.path().ok()?) {
            Executor::Nobody => Some(false),
            Executor::Process { .. } => Some(true),
            _ => None,
        }
    }

    /// What becomes of something that was sent: now, or once a process executes the store.
    pub(crate) fn outlook(&self, now: &str, later: &str) -> String {
        match self.is_executed() {
            Some(false) => format!("{later}; {NOBODY}, so this waits until one does"),
            _ => now.to_owned(),
        }
    }

    /// The path of the file.
    pub(crate) fn file(&self) -> Result<PathBuf, Error> {
        check(&self.file)?;
        let text = self.file.to_str().unwrap_or_default();
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            return Err(Error::said(format!("{text:?} is not a file; name one that a program has made")));
        }
        Ok(text.strip_prefix("sqlite:").map_or_else(|| self.file.clone(), PathBuf::from))
    }
}

impl RunArgs {
    pub(crate) async fn open(&self) -> Result<AnyRun, Error> {
        self.check_run()?;
        self.open_any().await
    }

    /// Opens it to read it.
    pub(crate) async fn read(&self) -> Result<AnyRun, Error> {
        self.check_run()?;
        Ok(self.store.read()?.run(&self.id).await?)
    }

    fn check_run(&self) -> Result<(), Error> {
        if !self.is_job() {
            return Ok(());
        }
        let way_out = "`outlive job` shows it, `outlive terminate` ends it";
        Err(Error::said(format!("{:?} is an instance of a job, not a run; {way_out}", self.id)))
    }

    /// Opens it, be it a run or an instance of a job.
    pub(crate) async fn open_any(&self) -> Result<AnyRun, Error> {
        Ok(self.store.open()?.run(&self.id).await?)
    }

    pub(crate) fn is_job(&self) -> bool {
        kind(&self.id).is_some()
    }
}

/// The kind of job that a name is of, if it is of one.
pub(crate) fn kind(text: &str) -> Option<JobKind> {
    JobKind::from_text(text.split_once(':')?.0)
}

/// The instance of a job a command is about.
#[derive(clap::Args, Debug)]
pub(crate) struct InstanceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The instance, as task:orders:42; a pool is named pool:NAME
    #[arg(value_name = "KIND:NAME:ID")]
    pub(crate) instance: String,
}

/// An instance of a job, and the client to reach it.
pub(crate) struct Opened {
    client: Client,
    pub(crate) job: AnyJob,
    pub(crate) id: String,
}

impl InstanceArgs {
    pub(crate) fn open(&self) -> Result<Opened, Error> {
        open_instance(self.store.open()?, &self.instance)
    }

    /// Opens it to read it.
    pub(crate) fn read(&self) -> Result<Opened, Error> {
        open_instance(self.store.read()?, &self.instance)
    }
}

pub(crate) fn open_instance(client: Client, instance: &str) -> Result<Opened, Error> {
    let (job, id) = match instance.match_indices(':').nth(1) {
        Some((colon, _)) => (client.job_by_name(&instance[..colon])?, instance[colon + 1..].to_owned()),
        None => (client.job_by_name(instance)?, String::new()),
    };
    match (job.kind(), id.as_str()) {
        (JobKind::Pool, "") => Ok(Opened { client, job, id: "main".into() }),
        (JobKind::Pool, other) if other != "main" => {
            Err(Error::said(format!("a pool has one queue and no instances; write {:?} without {other:?}", job.name())))
        }
        (_, "") => Err(Error::said(format!(
            "{instance:?} is a job; name an instance of it as {0}:ID (`outlive jobs FILE {0}` lists them)",
            job.name()
        ))),
        _ => Ok(Opened { client, job, id }),
    }
}

impl Opened {
    /// The instance by its whole name.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.job.name(), self.id)
    }

    /// An error of the library. If there is no such job at all, says which there are.
    pub(crate) async fn told(&self, error: outlive::Error) -> Error {
        match error.is_not_found() {
            true => told(&self.client, &self.job, error).await,
            false => error.into(),
        }
    }
}

/// What is told of a job that is not found: which there are, if it is none of them.
pub(crate) async fn told(client: &Client, job: &AnyJob, error: outlive::Error) -> Error {
    let Ok(jobs) = client.jobs().await else { return error.into() };
    let names: Vec<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
    match (names.contains(&job.name()), names.is_empty()) {
        (true, _) => error.into(),
        (false, true) => Error::said(format!("there is no job {:?} in this store; it has none", job.name())),
        (false, false) => {
            Error::said(format!("there is no job {:?} in this store; there are {}", job.name(), names.join(", ")))
        }
    }
}

/// Refuses what the library would make a new store of.
fn check(place: &Path) -> Result<(), Error> {
    let text = place.to_str().unwrap_or_default();
    if text == "memory:" {
        return Err(Error::said("the store \"memory:\" lives in its own process alone; name a file"));
    }
    if text.is_empty() || text.starts_with("postgres:") || text.starts_with("postgresql:") {
        return Ok(()); // The library says what is wrong with these.
    }
    let path = text.strip_prefix("sqlite:").map_or(place, Path::new);
    match path.metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => {
            Err(Error::said(format!("no such store: {path:?} is an empty file; name one that a program has made")))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::said(format!(
            "no such store: there is no file {path:?}; name one that a program has made with `Engine::open`"
        ))),
        Err(error) => Err(Error::said(format!("the store {path:?} cannot be opened: {error}"))),
    }
}
