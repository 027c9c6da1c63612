//! Tests workflows and jobs of [Outlive](outlive) in memory and in virtual time, and crashes them wherever it can.
//!
//! Add it to `[dev-dependencies]`: it is a crate of its own, so that no test code is part of what you ship.
//!
//! A test runs on a [`TestEngine`]. A month passes at once, the process can crash at any moment, and a step can fail or
//! be replaced:
//!
//! ```
//! use outlive::prelude::*;
//! use outlive_testkit::TestEngine;
//!
//! async fn reminder(ctx: Ctx, to: String) -> Result<String> {
//!     ctx.sleep("30 days").await?;
//!     Ok(ctx.step("send mail", || async { Ok::<_, BoxError>(format!("mail to {to}")) }).await?)
//! }
//!
//! // In your tests, this is a `#[tokio::test]`.
//! # #[tokio::main(flavor = "current_thread")]
//! async fn reminder_survives_a_crash() -> Result<()> {
//!     let mut test = TestEngine::new(|engine| engine.workflow("reminder", reminder)).await;
//!     let run = test.start(reminder, &"ada".to_string()).await?;
//!     test.advance("29 days").await;
//!     test.crash().await;
//!     assert_eq!(test.executions("send mail"), 0);
//!     assert_eq!(test.result(&run).await?, "mail to ada");
//!     Ok(())
//! }
//! # reminder_survives_a_crash().unwrap();
//! ```
//!
//! | to find out | use |
//! |---|---|
//! | what a workflow or job does, moment by moment | [`TestEngine`] |
//! | whether a crash at any commit can be observed | [`crash_everywhere`], [`crash_jobs_everywhere`] |
//! | whether it works with several workers when everything goes wrong | [`simulate()`] |
//! | whether new code can take over the runs in flight | [`check()`] |
//! | what happens if a chosen write of the store fails | [`Faults`] |
//!
//! If you are the author of a store, start at [`conformance`].

mod check;
mod clock;
pub mod conformance;
pub mod crashes;
mod engine;
mod faults;
mod hook;
#[doc(hidden)]
pub mod proof;
mod random;
pub mod simulate;
mod watched;
mod words;

pub use check::check;
pub use clock::TestClock;
#[doc(inline)]
pub use crashes::{crash_everywhere, crash_jobs_everywhere};
pub use engine::{TestBuilder, TestEngine};
pub use faults::{Fault, Faults};
#[doc(inline)]
pub use simulate::{Sim, simulate};
