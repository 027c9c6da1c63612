//! Exports: they read back as written, and an incomplete one is refused with the line number.

use outlive::Builder;
use outlive::check::Verdict;
use outlive::export::{self, ExportProblem, Exported, Reader};
use outlive::prelude::*;
use outlive_testkit::{TestEngine, check};
use proptest::prelude::*;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Does one of everything that gets recorded.
async fn busy(ctx: Ctx, n: u32) -> Result<String> {
    ctx.step("charge", || ok(format!("paid {n}\n\"twice\""))).timeout("1 hour").await?;
    let failing = || async { Err::<(), _>(BoxError::from("no")) };
    let gave_up = ctx.step("call", failing).retry(Retry::times(1).constant("1 second")).await;
    assert!(gave_up.is_err());
    ctx.sleep("1 minute").await?;
    let by: String = ctx.wait("approval").timeout("1 day").await?;
    ctx.scope("a/b").wait::<u32>("never").await?;
    Ok(by)
}

/// Registered only where it is started.
async fn gone(ctx: Ctx, _: serde_json::Value) -> Result<()> {
    Ok(ctx.sleep("1 hour").await?)
}

fn setup(engine: Builder) -> Builder {
    engine.workflow("busy", busy)
}

/// A store with runs at many points of their lives.
async fn store() -> TestEngine {
    let test = TestEngine::new(|engine| setup(engine).workflow("gone", gone).version("1.0")).await;
    for n in 0..4 {
        let id = format!("run-{n}");
        let run = test.start(busy, &n).id(&id).tag("kind", "odd \u{2028} \"one\"").await.unwrap();
        test.settle().await;
        if n > 0 {
            test.advance("2 minutes").await;
            run.signal("approval", "ada").await.unwrap();
            run.signal("unasked", &[1.5]).await.unwrap();
        }
        match n {
            2 => drop(run.cancel("sold out").await.unwrap()),
            3 => run.pause().await.unwrap(),
            _ => {}
        }
        test.settle().await;
    }
    test.start_json("busy", "\n 7\r\n").id("later").delay("1 day").await.unwrap();
    test.start_json("gone", "{\"a\":\n[1,\n2.50]}").id("unknown").await.unwrap();
    test.settle().await;
    test
}

async fn text(test: &TestEngine) -> String {
    let mut file = Vec::new();
    export::write(test, Filter::runs(), &mut file, |_| {}).await.unwrap();
    String::from_utf8(file).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Exported>, export::ExportError> {
    Reader::new(bytes)?.collect()
}

#[tokio::test]
async fn export_reads_back_as_written() {
    let test = store().await;
    let file = text(&test).await;
    assert_eq!(file.lines().count(), 6 + 2);
    let runs = read(file.as_bytes()).unwrap();
    assert_eq!(runs.len(), 6);
    for run in runs {
        let num = run.instance.num;
        let mut kept = test.store().instance(&run.instance.id).await.unwrap().unwrap();
        // Line ends between JSON values become spaces and those around it are trimmed; the owner is not part of a run.
        kept.input = outlive::Payload::recorded(kept.input.as_str().replace(['\n', '\r'], " ").trim());
        kept.owner = outlive_core::id::Epoch(0);
        assert_eq!(run.instance, kept);
        assert_eq!(run.journal, Ok(test.store().journal(num, 0, usize::MAX).await.unwrap()));
        assert_eq!(run.inbox, Ok(test.store().inbox(num, 0, usize::MAX).await.unwrap()));
    }
}

#[tokio::test]
async fn check_of_an_export_matches_check_of_its_store() {
    let test = store().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    std::fs::write(&path, text(&test).await).unwrap();
    let none = |engine: Builder| engine;
    for code in [setup, none] {
        let (of_store, of_export) = (check(&test, code).await, check(&path, code).await);
        assert_eq!(of_store, of_export);
        assert!(of_store.runs().len() == 5, "{of_store}");
    }
    assert_eq!(check(&path, setup).await.count("would be stuck"), 1, "one workflow is not registered");
}

#[tokio::test]
async fn damaged_journal_affects_only_its_own_run() {
    let test = store().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    let whole = text(&test).await;
    let table = [
        ("\"seq\":2,", "\"seq\":3,", "entry 3 follows entry 1 in the journal"),
        ("\"journal\":[", "\"journal_damage\":\"a page is gone\",\"journal\":[", "damaged: a page is gone; restore it"),
    ];
    for (good, bad, said) in table {
        let mut lines: Vec<String> = whole.lines().map(ToOwned::to_owned).collect();
        let hurt = lines.iter_mut().find(|line| line.contains("\"id\":\"run-0\"")).unwrap();
        *hurt = hurt.replacen(good, bad, 1);
        std::fs::write(&path, lines.join("\n")).unwrap();
        let report = check(&path, setup).await;
        let of = |id: &str| report.runs().iter().find(|run| run.id == id).unwrap().verdict.clone();
        assert!(matches!(of("run-0"), Verdict::Stuck { sentence } if sentence.contains(said)), "{}", of("run-0"));
        assert_eq!(of("run-1"), Verdict::Fine);
    }
}

#[tokio::test]
async fn export_errors_name_the_line() {
    let whole = text(&store().await).await;
    let lines: Vec<&str> = whole.lines().collect();
    let with = |at: usize, line: &str| {
        let mut changed = lines.clone();
        changed[at] = line;
        read(changed.join("\n").as_bytes()).unwrap_err()
    };
    let later = lines[0].replace("\"version\":1", "\"version\":9");
    assert_eq!((with(0, "{}").line, with(0, "{}").problem), (1, ExportProblem::NotAnExport));
    assert_eq!(with(0, &later).problem, ExportProblem::Version { found: 9, known: 1 });
    assert_eq!(read(b"").unwrap_err().problem, ExportProblem::NotAnExport);
    for (garbage, said) in [
        ("{\"id\":7}", "line 4"),
        ("[]", "line 4"),
        ("\u{0}", "line 4"),
        (&lines[3].replace("\"step done\"", "\"step begun\""), "no such kind: \"step begun\""),
        (&lines[3].replace("\"status\":\"", "\"status\":\"half "), "no such status"),
    ] {
        let error = with(3, garbage);
        assert!(matches!(error.problem, ExportProblem::Garbage(_)), "{garbage}: {error}");
        assert!(error.line == 4 && error.to_string().contains(said), "{garbage}: {error}");
    }
    let count = with(7, "{\"end\":7}");
    assert_eq!((count.line, count.problem), (8, ExportProblem::Count { said: 7, found: 6 }));
    let short = read(lines[..4].join("\n").as_bytes()).unwrap_err();
    assert_eq!((short.line, short.problem), (5, ExportProblem::Truncated));
}

#[tokio::test]
async fn truncated_export_is_refused() {
    let whole = text(&store().await).await;
    let last = whole.lines().last().unwrap().len() + 1;
    for end in (0..whole.len() - 1).step_by(7).chain(whole.len() - last..whole.len() - 1) {
        assert!(read(&whole.as_bytes()[..end]).is_err(), "cut at {end} of {}", whole.len());
    }
    assert!(read(whole.trim_end().as_bytes()).is_ok(), "the last line is complete without its newline");
}

fn sample() -> &'static str {
    static SAMPLE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SAMPLE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { text(&store().await).await })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn export_with_corrupted_bytes_is_read_or_refused(
        places in prop::collection::vec((0..sample().len(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut bytes = sample().as_bytes().to_vec();
        for (at, byte, how) in places {
            let at = at.min(bytes.len() - 1);
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        match read(&bytes) {
            Ok(runs) => prop_assert!(runs.len() <= 6),
            Err(error) => prop_assert!((1..=lines + 1).contains(&error.line), "{error}"),
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }
}
