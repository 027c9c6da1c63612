//! Errors: exit code 1, one line that names the value and the fix, and nothing written.

use crate::shop::{Shop, tell};

#[tokio::test]
async fn missing_store_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nope.db");
    let name = file.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["ps", name],
        &["show", name, "x"],
        &["tree", name, "x"],
        &["start", name, "w", "1"],
        &["signal", name, "x", "s", "1"],
        &["cancel", name, "x"],
    ];
    for words in commands {
        let error = tell(words).await.error();
        assert!(error.contains("no such store") && error.contains("nope.db"), "{words:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn non_store_file_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in
        [("notes.txt", "some notes, longer than any header of a database would be, and then some"), ("empty.db", "")]
    {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let error = tell(&["ps", file.to_str().unwrap()]).await.error();
        assert!(error.contains(name), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    let error = tell(&["ps", folder.path().to_str().unwrap()]).await.error();
    assert!(error.contains("is a directory"), "{error}");
    assert!(tell(&["ps", "memory:"]).await.error().contains("name a file"));
}

#[tokio::test]
async fn bad_values_are_named_and_nothing_is_written() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let long = "i".repeat(300);
    let table: [(&[&str], &str); 12] = [
        (&["show", "no-such-run"], "\"no-such-run\""),
        (&["tree", "no-such-run"], "\"no-such-run\""),
        (&["signal", "no-such-run", "approval", "1"], "\"no-such-run\""),
        (&["cancel", "no-such-run"], "\"no-such-run\""),
        (&["show", ""], "run id \"\""),
        (&["start", "order", "1", "--id", "a\tb"], "\"a\\tb\""),
        (&["start", "order", "1", "--id", &long], "300 bytes"),
        (&["start", "", "1"], "workflow name \"\""),
        (&["start", "order", "ada"], "\"ada\" is not JSON"),
        (&["start", "order", "1", "--delay", "5 parsecs"], "\"5 parsecs\""),
        (&["start", "order", "1", "--deadline", "0 s"], "greater than zero"),
        (&["signal", "order-1", "approval", "{\"by\":"], "is not JSON"),
    ];
    for (words, named) in table {
        let error = shop.tell(words).await.error();
        assert!(error.contains(named), "{words:?}: {error}");
    }
    assert_eq!(shop.ask(&["ps"]).await["counts"]["total"], 1);
    assert_eq!(shop.ask(&["show", "order-1"]).await["journal"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn ended_run_refuses_signals_and_only_a_failed_run_retries() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    let error = shop.tell(&["signal", "bad-1", "approval", "1"]).await.error();
    assert!(error.contains("\"bad-1\" is failed"), "{error}");
    let run = shop.waiting_order("order-1").await;
    let error = shop.tell(&["retry", "order-1"]).await.error();
    assert!(error.contains("only a failed or stuck run can be retried"), "{error}");
    run.cancel("done").await.unwrap();
}

#[tokio::test]
async fn usage_error_exits_with_code_2() {
    for words in [&["ps"][..], &["nonsense"], &["ps", "x", "--status", "odd"], &["ps", "x", "--tag", "odd"]] {
        let told = tell(words).await;
        assert_eq!((told.code, told.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(told.err.starts_with("error: "), "{}", told.err);
    }
}

/// What broke: `doctor` waited for the other end of a pipe, and accepted a device as an empty store.
#[tokio::test]
async fn every_command_refuses_a_non_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for name in [pipe.to_str().unwrap(), "/dev/null", "/dev/zero"] {
        let commands: [&[&str]; 7] = [
            &["ps", name],
            &["show", name, "x"],
            &["start", name, "w", "1"],
            &["jobs", name],
            &["events", name],
            &["doctor", name],
            &["export", name],
        ];
        for words in commands {
            let told = tokio::time::timeout(std::time::Duration::from_secs(120), tell(words)).await;
            let error = told.unwrap_or_else(|_| panic!("{words:?} hangs")).error();
            assert!(error.contains(name) && error.contains("is not a regular file"), "{words:?}: {error}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was created");
}
