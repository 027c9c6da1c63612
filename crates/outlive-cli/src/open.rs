//! Opening a store that is there: a command never makes one by a slip of the pen.

use std::io;
use std::path::{Path, PathBuf};

use outlive::{Client, Run};
use serde_json::Value;

use crate::error::Error;

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

    pub(crate) fn open(&self) -> Result<Client, Error> {
        check(&self.file)?;
        Ok(Client::open(&self.file)?)
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
        Ok(self.store.open()?.run(&self.id).await?)
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
