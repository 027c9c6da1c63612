//! P1, P2, P4: a crash before or after any commit, or at any two, changes neither the result nor the journal, and each
//! crash repeats a side effect at most once.

use crate::programs::PROGRAMS;

macro_rules! everywhere {
    ($($name:ident: $program:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == $program).unwrap();
            let report = program(7).run().await;
            assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
        }
    )*};
}

everywhere! {
    a_sequence_survives_a_crash_at_every_commit: "sequence";
    a_retried_step_survives_a_crash_at_every_commit: "retry";
    an_exhausted_step_survives_a_crash_at_every_commit: "exhausted";
    a_timeout_survives_a_crash_at_every_commit: "timeout";
    a_timeout_of_all_attempts_survives_a_crash_at_every_commit: "deadline";
    sleeps_survive_a_crash_at_every_commit: "sleep";
    waits_survive_a_crash_at_every_commit: "wait";
    signals_sent_before_the_wait_survive_a_crash_at_every_commit: "buffered";
    a_wait_that_times_out_survives_a_crash_at_every_commit: "wait_timeout";
    a_returned_signal_survives_a_crash_at_every_commit: "given_back";
    a_signal_that_beats_a_sleep_survives_a_crash_at_every_commit: "signal_against_sleep";
    a_sleep_that_beats_a_signal_survives_a_crash_at_every_commit: "sleep_against_signal";
    a_race_survives_a_crash_at_every_commit: "race";
    a_join_survives_a_crash_at_every_commit: "join";
    a_loop_survives_a_crash_at_every_commit: "looped";
    a_map_survives_a_crash_at_every_commit: "mapped";
    a_cancel_with_clean_up_survives_a_crash_at_every_commit: "cleaned";
    a_cancel_between_attempts_survives_a_crash_at_every_commit: "cancelled_retry";
    a_fallback_survives_a_crash_at_every_commit: "fallback";
    heartbeats_survive_a_crash_at_every_commit: "heartbeats";
    a_silent_attempt_survives_a_crash_at_every_commit: "silent";
    a_breaker_costs_no_attempt_with_a_crash_at_any_commit: "breaker";
    two_steps_behind_a_breaker_survive_a_crash_at_every_commit: "two_behind_a_breaker";
    a_cancel_behind_a_breaker_survives_a_crash_at_every_commit: "cancelled_behind_a_breaker";
    an_at_most_once_step_never_runs_twice: "once";
    random_values_survive_a_crash_at_every_commit: "drawn";
    a_failure_survives_a_crash_at_every_commit: "failing";
    a_family_survives_a_crash_at_every_commit: "family";
    a_cancelled_family_survives_a_crash_at_every_commit: "cancelled_family";
    what_is_sent_survives_a_crash_at_every_commit: "sending";
    layers_survive_a_crash_at_every_commit: "layered";
}
