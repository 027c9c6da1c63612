//! Measures the writer: 1,000 runs take 200 steps each in lockstep, in batches of 1,000 single-entry commits.
//!
//! `cargo run --release -p outlive-sqlite --example writer [DIR]`
#![expect(clippy::print_stdout, reason = "prints its result")]
#![expect(clippy::disallowed_methods, reason = "a measurement needs the time of the machine")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::payload::Payload;
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, Commit, Epoch, OnConflict, StartWrite, Write};
use outlive_core::time::Timestamp;
use outlive_sqlite::{Options, SqliteStore};

const RUNS: u64 = 1_000;
const STEPS: u64 = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::Builder::new().prefix("outlive-writer").tempdir_in(folder)?;
    let store = SqliteStore::open(&folder.path().join("runs.db"), Options::default())?;
    let epoch = store.lease(Timestamp::from_millis(0)).await?;

    let starts = (0..RUNS).map(|run| start(run, epoch)).collect::<Result<_, _>>()?;
    store.write(Arc::new(starts)).await?;
    let payload = Payload::encode(&serde_json::json!({ "amount": 4200, "currency": "EUR", "ok": true }))?;
    let batches: Vec<_> = (0..STEPS).map(|step| Arc::new(commits(step, epoch, &payload))).collect();

    let (begun, cpu_before) = (Instant::now(), cpu_seconds()?);
    for batch in batches {
        let answers = store.write(batch).await?;
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Done)), "a commit was refused");
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);

    let entries = (RUNS * STEPS) as f64;
    println!("{}", store.durability());
    println!(
        "{entries} entries in {seconds:.2} s: {:.0} entries/s, {:.2} µs CPU/entry",
        entries / seconds,
        cpu * 1e6 / entries
    );
    Ok(())
}

fn start(run: u64, owner: Epoch) -> Result<Write, Box<dyn Error>> {
    Ok(Write::Start(StartWrite {
        deadline: None,
        parent: None,
        id: Name::new("run id", &format!("order-{run}"))?,
        workflow: Name::new("workflow", "checkout")?,
        input: Payload::encode(&run)?,
        origin: None,
        seed: run,
        tags: Default::default(),
        at: Timestamp::from_millis(0),
        due: Timestamp::from_millis(0),
        on_conflict: OnConflict::Join,
        token: run,
        owner,
    }))
}

fn commits(step: u64, epoch: Epoch, payload: &Payload) -> Vec<Write> {
    let commit = |run: u64| {
        let mut entry = Entry::of_run(step + 1, Timestamp::from_millis(1_700_000_000_000), EntryKind::StepDone);
        entry.op = format!("step:charge card#{step}").into();
        entry.site = "src/shop.rs:31".into();
        entry.attempt = 1;
        entry.payload = Some(payload.clone());
        let entries = vec![entry];
        Write::Commit(Commit {
            writes: Vec::new(),
            num: InstanceNum(run + 1),
            epoch,
            seq_before: step,
            entries,
            taken: vec![],
            state: None,
        })
    };
    (0..RUNS).map(commit).collect()
}

/// Returns the CPU time of all threads of this process, in steps of 10 ms.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}
