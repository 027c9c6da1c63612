//! The directory for the demo's files: a temporary one, or one named by the user.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::CliError;

/// The directory of the demo.
pub(crate) enum DemoFolder {
    Temporary(TempDir),
    Kept(PathBuf),
}

pub(crate) fn store_in(folder: &Path) -> PathBuf {
    folder.join("shop.db")
}

pub(crate) fn steps_in(folder: &Path) -> PathBuf {
    folder.join("steps.txt")
}

pub(crate) fn calls_in(folder: &Path) -> PathBuf {
    folder.join("calls.txt")
}

impl DemoFolder {
    pub(crate) fn make(keep: Option<&Path>) -> Result<Self, CliError> {
        let Some(folder) = keep else {
            let made = tempfile::Builder::new().prefix("outlive-demo-").tempdir();
            return made
                .map(Self::Temporary)
                .map_err(|error| CliError::message(format!("cannot create a temporary directory: {error}")));
        };
        if store_in(folder).exists() {
            return Err(CliError::message(format!(
                "{:?} already exists; use another directory, or remove it",
                store_in(folder)
            )));
        }
        std::fs::create_dir_all(folder).map_err(|error| {
            CliError::message(format!("cannot create directory {folder:?}: {error}; use another one"))
        })?;
        Ok(Self::Kept(folder.to_owned()))
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(folder) => folder,
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        store_in(self.path())
    }

    pub(crate) fn steps(&self) -> PathBuf {
        steps_in(self.path())
    }

    pub(crate) fn calls(&self) -> PathBuf {
        calls_in(self.path())
    }
}
