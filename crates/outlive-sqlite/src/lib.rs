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

mod batch;
mod checkpoint;
mod claim;
mod commit;
mod deliver;
pub mod doctor;
mod doorbell;
mod error;
mod feed;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod lease;
mod ledger;
mod open;
mod place;
mod push;
mod query;
mod queue;
mod reader;
mod remove;
mod reopen;
mod row;
mod scan;
mod schema;
mod still;
mod store;
mod turn;
mod view;
mod watch;
mod writer;

pub use lease::Executor;
pub use open::{Durability, Options};
pub use store::SqliteStore;
pub use view::SqliteReader;
