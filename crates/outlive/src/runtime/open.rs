//! Opens the store that a path or URL names.

use std::path::Path;
use std::sync::Arc;

use outlive_core::store::Store;
use outlive_core::store::memory::MemoryStore;
use outlive_core::store::query::Query;

use crate::error::Error;

/// How durable an acknowledged write is.
///
/// ```
/// use outlive::Durability;
/// # use outlive::prelude::*;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// let engine = Engine::open(&path).durability(Durability::Full).start().await?;
/// assert!(engine.durability().ends_with("synchronous=full"));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Survives a power cut: a write is synced before it is acknowledged.
    #[default]
    Full,
    /// Survives the process, but a power cut may lose the last moments before it.
    Relaxed,
}

/// Opens the store that a path or URL names, to execute it: `memory:`, `sqlite:PATH` or a plain path.
pub(crate) fn store(place: &Path, durability: Durability) -> Result<Arc<dyn Store>, Error> {
    file_of(place)?.map_or_else(|| Ok(Arc::new(MemoryStore::new()) as _), |path| file(path, durability))
}

/// Opens the same for a client. Clients of one file share its connections.
pub(crate) fn shared(place: &Path) -> Result<Arc<dyn Store>, Error> {
    file_of(place)?.map_or_else(|| Ok(Arc::new(MemoryStore::new()) as _), shared_file)
}

/// Returns the file that a path or URL names; `None` for a store in memory.
fn file_of(place: &Path) -> Result<Option<&Path>, Error> {
    let text = place.to_str().unwrap_or_default();
    if text == "memory:" {
        return Ok(None);
    }
    if text.starts_with("postgres:") || text.starts_with("postgresql:") {
        return Err(Error::Setup(format!("{text:?}: PostgreSQL is not supported yet; use a file path")));
    }
    let path = text.strip_prefix("sqlite:").map_or(place, Path::new);
    if path.as_os_str().is_empty() {
        return Err(Error::Setup("the store's path \"\" is empty; use a file path or \"memory:\"".into()));
    }
    Ok(Some(path))
}

/// Opens an existing store for reading only. Returns `None` if the file is not a database: it may be an export.
pub(crate) fn for_reading(place: &Path) -> Result<Option<Arc<dyn Query>>, Error> {
    let text = place.to_str().unwrap_or_default();
    if text == "memory:" {
        return Err(Error::Setup("the store \"memory:\" exists only in its own process; use a file path".into()));
    }
    read_file(text.strip_prefix("sqlite:").map_or(place, Path::new))
}

/// Opens an existing store for reading only, as a store that refuses writes.
pub(crate) fn read_only(place: &Path) -> Result<Arc<dyn Store>, Error> {
    let text = place.to_str().unwrap_or_default();
    if text == "memory:" {
        return Err(Error::Setup("the store \"memory:\" exists only in its own process; use a file path".into()));
    }
    if text.starts_with("postgres:") || text.starts_with("postgresql:") {
        return Err(Error::Setup(format!("{text:?}: PostgreSQL is not supported yet; use a file path")));
    }
    view(text.strip_prefix("sqlite:").map_or(place, Path::new))
}

#[cfg(feature = "sqlite")]
fn view(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(outlive_sqlite::SqliteReader::open(path)?))
}

#[cfg(not(feature = "sqlite"))]
fn view(path: &Path) -> Result<Arc<dyn Store>, Error> {
    file(path, Durability::Full)
}

#[cfg(feature = "sqlite")]
fn read_file(path: &Path) -> Result<Option<Arc<dyn Query>>, Error> {
    if !outlive_sqlite::SqliteReader::is_database(path)? {
        return Ok(None);
    }
    Ok(Some(Arc::new(outlive_sqlite::SqliteReader::open(path)?)))
}

#[cfg(not(feature = "sqlite"))]
fn read_file(_: &Path) -> Result<Option<Arc<dyn Query>>, Error> {
    Ok(None)
}

#[cfg(feature = "sqlite")]
fn file(path: &Path, durability: Durability) -> Result<Arc<dyn Store>, Error> {
    let durability = match durability {
        Durability::Full => outlive_sqlite::Durability::Full,
        Durability::Relaxed => outlive_sqlite::Durability::Relaxed,
    };
    let options = outlive_sqlite::Options::new().durability(durability);
    Ok(Arc::new(outlive_sqlite::SqliteStore::open(path, options)?))
}

#[cfg(feature = "sqlite")]
fn shared_file(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(outlive_sqlite::SqliteStore::shared(path, outlive_sqlite::Options::new())?))
}

#[cfg(not(feature = "sqlite"))]
fn shared_file(path: &Path) -> Result<Arc<dyn Store>, Error> {
    file(path, Durability::Full)
}

#[cfg(not(feature = "sqlite"))]
fn file(path: &Path, _: Durability) -> Result<Arc<dyn Store>, Error> {
    Err(Error::Setup(format!("{}: this program was built without the feature `sqlite`; enable it", path.display())))
}
