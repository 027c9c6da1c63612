//! The power is cut at any moment: what was acknowledged is there, and nothing in part.

use outlive_powercut::{Setting, Tally, cut_power};

fn cut(setting: Setting, states: u64) -> Tally {
    cut_power(11, setting, states, &|| ()).expect("the store does what the one in memory does")
}

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged_and_leaves_nothing_in_part() {
    let tally = cut(Setting::Full, 5_000);
    assert_eq!((tally.states, tally.lost, tally.torn, tally.first), (5_000, 0, 0, None));
    assert!(tally.lives > 1 && tally.whole > 100, "{} lives, {} whole stores", tally.lives, tally.whole);
    // The log must be moved into the file often, or nothing is shown of that.
    assert!(tally.checkpoints > 3 * tally.lives, "{} checkpoints in {} lives", tally.checkpoints, tally.lives);
}

// The tests of the test: were they to pass, the one above would show nothing.

#[test]
fn with_synchronous_normal_a_power_cut_takes_what_was_acknowledged_but_leaves_nothing_in_part() {
    let tally = cut(Setting::Relaxed, 800);
    assert!(tally.lost > 100 && tally.torn == 0, "{tally:?}");
}

#[test]
fn on_a_disk_whose_syncs_do_nothing_a_power_cut_takes_and_tears() {
    let tally = cut(Setting::LyingSync, 800);
    assert!(tally.lost > 100 && tally.torn > 100, "{tally:?}");
}

#[test]
fn the_same_seed_cuts_the_same_way() {
    assert_eq!(cut(Setting::Relaxed, 300), cut(Setting::Relaxed, 300));
}
