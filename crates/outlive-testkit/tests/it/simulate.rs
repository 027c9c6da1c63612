//! The simulator finds bugs, and reports nothing for correct programs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::prelude::*;
use outlive_testkit::proof::programs;
use outlive_testkit::simulate::{Sim, simulate, try_simulate};

#[test]
fn random_programs_behave_correctly_in_every_world() {
    let report = simulate(0..1_500, programs);
    assert_eq!(report.worlds, 1_500);
    assert!(report.crashes > 500 && report.takeovers > 100 && report.lost_answers > 100, "{report}");
}

#[test]
fn same_seed_gives_the_same_world() {
    let look = |sim: &mut Sim| {
        programs(sim);
        sim.check(|_| Err("a look at it".to_owned()));
    };
    for seed in 0..100 {
        let [one, other] = [(); 2].map(|()| try_simulate([seed], look).unwrap_err());
        assert!(one.is_repeatable && !one.trace.is_empty());
        assert_eq!(one.trace, other.trace, "seed {seed}");
    }
}

static DRAWS: AtomicU64 = AtomicU64::new(0);

async fn unsteady(ctx: Ctx, _: ()) -> Result<u64> {
    ctx.sleep("1 minute").await?;
    Ok(DRAWS.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn nondeterministic_workflow_is_found() {
    let broken = try_simulate(0..50, |sim| {
        sim.engine(|engine| engine.workflow("w", unsteady));
        sim.start("w", "a", &());
    });
    let broken = broken.unwrap_err();
    assert!(broken.what.contains("replay"), "{broken}");
}

async fn paid(ctx: Ctx, _: ()) -> Result<()> {
    let accounts = ctx.get::<Accounts>();
    Ok(ctx.step("charge", || async { accounts.charge(&ctx.info().id) }).await?)
}

/// Charges on every request, however often it is repeated.
#[derive(Default)]
struct Accounts(Mutex<BTreeMap<String, u64>>);

impl Accounts {
    fn charge(&self, id: &str) -> Result<()> {
        *self.0.lock().unwrap().entry(id.to_owned()).or_default() += 1;
        Ok(())
    }
}

#[test]
fn non_idempotent_step_is_found_by_the_ledger() {
    let twice = try_simulate(0..500, |sim| {
        sim.engine(|engine| engine.workflow("w", paid).provide(Accounts::default()));
        sim.start("w", "a", &());
        sim.check(|end| match end.effects.iter().filter(|effect| effect.step == "charge").count() {
            1 => Ok(()),
            times => Err(format!("charged {times} times")),
        });
    });
    let broken = twice.unwrap_err();
    assert!(broken.what.starts_with("charged ") && broken.is_repeatable, "{broken}");
    assert!(broken.to_string().contains(&format!("simulate([{}], ..)", broken.seed)), "{broken}");
}

async fn forgetful(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.wait("never").await?)
}

#[test]
fn run_that_never_ends_is_found() {
    let broken = try_simulate(0..5, |sim| {
        sim.engine(|engine| engine.workflow("w", forgetful));
        sim.start("w", "a", &());
    });
    let broken = broken.unwrap_err();
    assert!(broken.what.contains("has not ended, although nothing blocks it"), "{broken}");
}

#[test]
fn invalid_plan_is_refused() {
    let broken = try_simulate([3], |sim| sim.signal("a", "approval", &true)).unwrap_err();
    assert_eq!(broken.what, "run \"a\" is not started; call `sim.start(..)` for it first");
    let broken = try_simulate([3], |sim| {
        sim.start("w", "a", &());
        sim.start("w", "a", &());
    });
    assert_eq!(broken.unwrap_err().what, "run \"a\" is started twice; give each run of a world its own id");
}

#[test]
fn panic_in_a_check_is_reported_with_its_seed() {
    let broken = try_simulate([5], |sim| sim.check(|_| panic!("no such thing"))).unwrap_err();
    assert_eq!((broken.seed, broken.what.as_str()), (5, "panicked: no such thing"));
}
