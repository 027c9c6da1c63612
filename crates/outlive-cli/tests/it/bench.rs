//! `bench` with counts so small that only the names of its figures are meaningful.

use serde_json::Value;

use crate::shop::tell;

const FIGURES: [&str; 8] = [
    "steps_per_sec",
    "cpu_us_per_step",
    "p50_us",
    "p99_us",
    "peak_rss_mb",
    "bytes_per_run",
    "floor_fdatasync_p50_us",
    "ratio_to_floor",
];

fn assert_measured(document: &Value) {
    for (workload, n) in [("w1", 20), ("w2", 20)] {
        let figures = &document[workload];
        assert_eq!((&figures["workload"], &figures["n"]), (&workload.into(), &n.into()), "{document}");
        assert!(figures["durability"].as_str().unwrap().contains("synchronous=full"), "{document}");
        for name in FIGURES {
            assert!(figures[name].is_number(), "{workload} has no number {name}: {document}");
        }
    }
}

#[tokio::test]
async fn both_workloads_are_measured_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let out = tell(&["bench", "--dir", dir, "--n", "20", "--json"]).await.well();
    assert!(out.contains("durable steps per second") && out.contains("synchronous=full"), "{out}");
    assert_measured(&serde_json::from_str(out.lines().last().unwrap()).unwrap());
    let out = tell(&["bench", "--dir", dir, "--n", "20", "-o", "json"]).await.well();
    assert_measured(&serde_json::from_str(&out).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn missing_folder_is_reported_with_a_fix() {
    let error = tell(&["bench", "--dir", "/no/such/folder"]).await.error();
    assert!(error.contains("/no/such/folder") && error.contains("--dir"), "{error}");
}
