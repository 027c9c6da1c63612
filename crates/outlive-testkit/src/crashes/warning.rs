//! Warnings: findings that are not broken rules but deserve a look.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::words::{unkeyed, unnumbered};

use super::ledger::Effect;
use super::stage::Played;

/// A step worth a look.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::crash_everywhere;
/// async fn charge() -> Result<u32> { Ok(42) }
/// async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = crash_everywhere(pay).run().await;
/// assert_eq!(report.warnings()[0].step, "charge");
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Warning {
    /// Why it deserves a look.
    pub kind: WarningKind,
    /// The step's name.
    pub step: String,
    /// Call site of the step.
    pub site: String,
    /// How often its body ran; for [`WarningKind::Unkeyed`], how many steps that site called.
    pub times: usize,
    /// The crashes with which it happened.
    pub schedule: String,
}

/// Why a step deserves a look.
///
/// ```
/// use outlive::prelude::*;
/// use outlive_testkit::{crash_everywhere, crashes::WarningKind};
/// use std::collections::HashMap;
///
/// async fn pay_all(ctx: Ctx, bills: HashMap<String, u32>) -> Result<()> {
///     for (to, cents) in bills {
///         // In another order next time, and then the second step is a different payment.
///         ctx.step("pay", |attempt: Attempt| pay(&to, cents, attempt)).await?;
///     }
///     Ok(())
/// }
/// # async fn pay(_: &str, _: u32, attempt: Attempt) -> Result<()> { let _ = attempt.idempotency_key(); Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let bills = HashMap::from([("ada".to_string(), 500), ("bob".to_string(), 700)]);
/// let report = crash_everywhere(pay_all).input(&bills).run().await;
/// assert_eq!(report.warnings()[0].kind, WarningKind::Unkeyed);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WarningKind {
    /// Its body ran twice under one idempotency key without reading it, so the receiver could not recognize the second
    /// request as a duplicate.
    KeyNotAsked,
    /// One call site calls it several times without a key, so only call order tells the calls apart.
    Unkeyed,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, step, site, times, schedule } = self;
        match kind {
            WarningKind::KeyNotAsked => write!(
                f,
                "step {step:?} ({site}) ran {times} times ({schedule}) and never read its idempotency key; \
                 pass `attempt.idempotency_key()` to the service that should drop a duplicate request, \
                 or add `.idempotent({step:?})` if a duplicate does no harm"
            ),
            WarningKind::Unkeyed => write!(f, "{}, or add `.ordered({step:?})`", unkeyed(step, site)),
        }
    }
}

/// Returns the warnings of a trial.
pub(super) fn of(played: &Played) -> Vec<Warning> {
    let mut by_op: BTreeMap<(&str, u32, &str), Vec<&Effect>> = BTreeMap::new();
    let effects = &played.ledger.effects;
    effects
        .iter()
        .for_each(|effect| by_op.entry((&effect.run, effect.run_number, &effect.op)).or_default().push(effect));
    let is_bare = |effects: &&Vec<&Effect>| {
        effects.len() > 1 && effects.iter().all(|effect| effect.is_judged && !effect.has_asked_key)
    };
    let warning = |kind, effect: &Effect, times| Warning {
        kind,
        step: effect.step.clone(),
        site: effect.site.clone(),
        times,
        schedule: played.schedule.to_string(),
    };
    let bare = by_op.values().filter(is_bare);
    let mut warnings: Vec<_> =
        bare.map(|effects| warning(WarningKind::KeyNotAsked, effects[0], effects.len())).collect();
    let mut by_place: BTreeMap<(&str, &str, &str), (&Effect, BTreeSet<&str>)> = BTreeMap::new();
    for effect in played.ledger.effects.iter().filter(|effect| effect.key.is_none()) {
        let place = (effect.run.as_str(), unnumbered(&effect.op), effect.site.as_str());
        by_place.entry(place).or_insert_with(|| (effect, BTreeSet::new())).1.insert(&effect.op);
    }
    let repeated = by_place.values().filter(|(_, ops)| ops.len() > 1);
    warnings.extend(repeated.map(|(effect, ops)| warning(WarningKind::Unkeyed, effect, ops.len())));
    warnings
}
