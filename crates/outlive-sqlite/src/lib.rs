//! The embedded store: an ordinary SQLite file. One process executes it, and any number of others can read it, start
//! runs and send signals at the same time.
//!
//! ```
//! use outlive_core::store::Store;
//! use outlive_sqlite::{Options, SqliteStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("outlive-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let store = SqliteStore::open(&folder.join("shop.db"), Options::default())?;
//! assert!(store.durability().ends_with("journal_mode=wal, synchronous=full"));
//! # drop(store);
//! # let _ = std::fs::remove_dir_all(&folder);
//! # Ok(())
//! # }
//! ```

mod compact;
pub mod doctor;
mod doorbell;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod lease;
mod open;
mod place;
mod read;
mod row;
mod schema;
mod store;
mod unchanged_file;
mod watch;
mod write;

pub use compact::{CompactProgress, Compacted, compact};
pub use lease::Executor;
pub use open::{Durability, Options};
pub use read::SqliteReader;
pub use store::SqliteStore;
