//! When I/O fails, the store reports it, loses nothing, and continues once the disk works again.

use outlive_powercut::{Lasting, Outcome, Trouble, fail_io};

/// Fails only every nth I/O, since trying all of them takes a minute; `./prove powercut` does.
const EVERY: usize = 11;

#[track_caller]
fn fail(trouble: Trouble, lasting: Lasting) {
    let mut met: Vec<Outcome> = Vec::new();
    for nth in (1..).step_by(EVERY) {
        let outcome = fail_io(5, trouble, lasting, nth).unwrap_or_else(|found| panic!("{found}"));
        if outcome.failed == 0 {
            break;
        }
        met.push(outcome);
    }
    let reported = met.iter().filter(|outcome| outcome.errors > 0).count();
    assert!(met.len() > 6 && reported > met.len() / 2, "{} I/O failed, {reported} of them were reported", met.len());
}

#[test]
fn io_error_that_happens_once_loses_nothing() {
    fail(Trouble::Failing, Lasting::Once);
}

#[test]
fn disk_that_fails_until_repaired_loses_nothing() {
    fail(Trouble::Failing, Lasting::UntilRepaired);
}

#[test]
fn disk_that_is_full_once_loses_nothing() {
    fail(Trouble::Full, Lasting::Once);
}

#[test]
fn disk_that_is_full_until_freed_loses_nothing() {
    fail(Trouble::Full, Lasting::UntilRepaired);
}
