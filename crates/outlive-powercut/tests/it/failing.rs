//! An I/O fails: the store says so, loses nothing, and goes on by itself when the disk is good again.

use outlive_powercut::{Lasting, Outcome, Trouble, fail_io};

/// Not every one, as that takes a minute: `./prove powercut` does that.
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
    let told = met.iter().filter(|outcome| outcome.errors > 0).count();
    assert!(met.len() > 6 && told > met.len() / 2, "{} I/O failed, {told} of them were told", met.len());
}

#[test]
fn an_io_that_fails_once_loses_nothing() {
    fail(Trouble::Failing, Lasting::Once);
}

#[test]
fn a_disk_that_fails_until_it_is_repaired_loses_nothing() {
    fail(Trouble::Failing, Lasting::UntilRepaired);
}

#[test]
fn a_write_that_finds_the_disk_full_once_loses_nothing() {
    fail(Trouble::Full, Lasting::Once);
}

#[test]
fn a_disk_that_is_full_until_somebody_frees_it_loses_nothing() {
    fail(Trouble::Full, Lasting::UntilRepaired);
}
