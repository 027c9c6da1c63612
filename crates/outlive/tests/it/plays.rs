//! A sample of the plays of code changes; `./prove plays --long` runs all of them.

use outlive_testkit::proof::plays;

#[tokio::test]
async fn deploy_that_a_check_calls_fine_repeats_nothing_and_ends() {
    let report = plays(2026, 1_500, |_| {}).await.unwrap();
    assert!(report.missed.is_empty(), "{:#?}", report.missed);
    assert!(report.fine > 100 && report.alarms > 100 && report.suggestions > 0, "{report:?}");
}
