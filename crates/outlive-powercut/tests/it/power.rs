//! Cuts the power at any moment: everything acknowledged survives, and nothing is torn.

use outlive_powercut::{Setting, Tally, cut_power};

fn cut(setting: Setting, states: u64) -> Tally {
    cut_power(11, setting, states, &|| ()).expect("the store behaves like the memory store")
}

#[test]
fn power_cut_loses_nothing_acknowledged_and_tears_nothing() {
    let tally = cut(Setting::Full, 5_000);
    assert_eq!((tally.states, tally.lost, tally.torn, tally.first), (5_000, 0, 0, None));
    assert!(tally.lives > 1 && tally.whole > 100, "{} lives, {} whole stores", tally.lives, tally.whole);
    // Without many checkpoints the test would show nothing about them.
    assert!(tally.checkpoints > 3 * tally.lives, "{} checkpoints in {} lives", tally.checkpoints, tally.lives);
}

// Controls: if the power cuts below lost nothing, the test above would prove nothing.

#[test]
fn power_cut_with_synchronous_normal_loses_writes_but_tears_nothing() {
    let tally = cut(Setting::Relaxed, 800);
    assert!(tally.lost > 100 && tally.torn == 0, "{tally:?}");
}

#[test]
fn power_cut_on_a_disk_that_ignores_syncs_loses_and_tears() {
    let tally = cut(Setting::LyingSync, 800);
    assert!(tally.lost > 100 && tally.torn > 100, "{tally:?}");
}

#[test]
fn same_seed_cuts_the_same_way() {
    assert_eq!(cut(Setting::Relaxed, 300), cut(Setting::Relaxed, 300));
}
