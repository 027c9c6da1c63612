//! The most frequent queries use an index, in order: no scan, no sort.

use crate::support::Place;

#[track_caller]
fn assert_plan(place: &Place, sql: &str, says: &str) {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let connection = place.sql();
    let mut statement = connection.prepare(&sql).unwrap();
    let plan: Vec<String> = statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
    let plan = plan.join("; ");
    assert!(plan.contains(says) && !plan.contains("TEMP B-TREE") && !plan.contains("SCAN instance;"), "{sql}: {plan}");
}

#[test]
fn wakes_owners_and_lists_use_their_indexes() {
    let place = Place::new();
    let _store = place.open();
    let list = "SELECT num, status, 1 FROM instance WHERE";
    for (sql, index) in [
        (
            "SELECT wake, num FROM instance WHERE wake IS NOT NULL AND wake > 1 AND wake <= 5 ORDER BY wake, num LIMIT 5",
            "COVERING INDEX instance_by_wake (wake>? AND wake<?)",
        ),
        (
            "SELECT wake, num FROM instance WHERE wake IS NOT NULL AND wake = 1 AND wake <= 5 AND num > 7 ORDER BY num LIMIT 5",
            "COVERING INDEX instance_by_wake (wake=? AND rowid>?)",
        ),
        (
            "SELECT num, recoveries FROM instance WHERE wake IS NOT NULL AND wake <= 5 AND recoveries > 1 ORDER BY wake, num",
            "INDEX instance_by_wake",
        ),
        ("UPDATE instance SET owner = 0 WHERE owner <> 0", "instance_by_owner"),
        (&format!("{list} status = 5 AND status <> 4 AND num < 9 ORDER BY num DESC LIMIT 5"), "instance_by_status"),
        (&format!("{list} workflow = 'a' AND num < 9 ORDER BY num DESC LIMIT 5"), "instance_by_workflow"),
        ("SELECT max(seq) FROM entry WHERE instance = 5", "entry_by_instance"),
    ] {
        assert_plan(&place, sql, index);
    }
}

#[test]
fn ended_runs_are_found_in_the_order_of_their_end() {
    let place = Place::new();
    let _store = place.open();
    // Made by the first removal.
    let index = "CREATE INDEX instance_by_end ON instance (workflow, status, ended_at) WHERE ended_at IS NOT NULL";
    place.sql().execute(index, []).unwrap();
    let sql = "SELECT num, ended_at FROM instance WHERE workflow = 'a' AND status = 4 AND ended_at IS NOT NULL \
         AND ended_at < 9 AND (ended_at, num) > (1, 2) ORDER BY ended_at, num LIMIT 5";
    assert_plan(&place, sql, "instance_by_end (workflow=? AND status=? AND ended_at>? AND ended_at<?)");
    let sql =
        "DELETE FROM entry WHERE pos IN (SELECT pos FROM entry WHERE instance = 1 AND seq < 9 ORDER BY seq LIMIT 5)";
    assert_plan(&place, sql, "entry_by_instance (instance=? AND seq<?)");
}
