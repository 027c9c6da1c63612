//! `outlive export`: writes runs and their journals to a file.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outlive::{Filter, StatusKind};
use serde::Serialize;

use crate::error::CliError;
use crate::filter::FilterArgs;
use crate::open::StoreArgs;
use crate::output::escape;
use crate::output::printer::Printer;
use crate::output::progress;

#[derive(clap::Args)]
#[command(after_help = "The format is JSON lines: a header, one line per run with its journal and inbox, and a last \
    line with the number of runs. `outlive check` reads it. The store is only read, even while a program executes it.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// File to write; stdout if not given
    #[arg(long, value_name = "EXPORT")]
    out: Option<PathBuf>,
    /// Also write runs that have ended; without this and --status, only unfinished runs are written
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Serialize)]
struct ExportJson<'a> {
    runs: u64,
    out: &'a Path,
    left_out: LeftOut,
}

/// What the store has but the export does not.
#[derive(Serialize, Default)]
struct LeftOut {
    /// The number of ended runs, if they were not requested.
    ended: u64,
    /// The number of job instances, if there was no filter.
    jobs: u64,
}

impl LeftOut {
    async fn of(args: &ExportArgs) -> Self {
        // Nothing to count if the source is itself an export. Problems with the store were reported before.
        let Ok(client) = args.store.read() else { return Self::default() };
        let filter = args.filter.filter();
        let count = async |filter| client.count(filter).await.unwrap_or_default();
        let (mut left_out, is_narrow) = (Self::default(), filter != Filter::runs());
        if !args.all && filter.statuses.is_empty() {
            let counts = count(filter).await;
            left_out.ended =
                StatusKind::ALL.into_iter().filter(|kind| kind.is_ended()).map(|kind| counts.of(kind)).sum();
        }
        if !is_narrow {
            left_out.jobs = count(Filter::jobs()).await.total();
        }
        left_out
    }

    /// Returns a sentence that says what was left out, if anything.
    fn sentence(&self) -> Option<String> {
        let count = |n: u64, one: &str, many: &str| (n > 0).then(|| format!("{n} {}", if n == 1 { one } else { many }));
        let ended = count(self.ended, "ended run", "ended runs");
        let jobs = count(self.jobs, "job instance", "job instances");
        let parts = [ended.map(|it| it + " (--all includes them)"), jobs.map(|it| it + " (exports contain only runs)")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join(", ")))
    }
}

pub(crate) async fn run(args: &ExportArgs, out: Printer) -> Result<ExitCode, CliError> {
    let file = args.store.path()?;
    let Some(target) = &args.out else {
        match to_stdout(&file, args).await {
            // The reader got only a part of the export.
            Err(error) if error.is_broken_pipe() => return Ok(ExitCode::FAILURE),
            written => written?,
        };
        LeftOut::of(args).await.sentence().iter().for_each(|sentence| out.note(sentence));
        return Ok(ExitCode::SUCCESS);
    };
    let runs = to_file(&file, target, args).await?;
    let words = if runs == 1 { "run" } else { "runs" };
    let left_out = LeftOut::of(args).await;
    let rest = left_out.sentence().map_or_else(String::new, |sentence| format!("; {sentence}"));
    let sentence = format!("{runs} {words} written to {}{rest}", target.display());
    out.result(sentence, &ExportJson { runs, out: target, left_out })?;
    Ok(ExitCode::SUCCESS)
}

async fn to_stdout(file: &Path, args: &ExportArgs) -> Result<u64, CliError> {
    let mut inner = StdoutWriter { inner: BufWriter::new(io::stdout().lock()), broken: None };
    let written = match io::stdout().is_terminal() {
        true => write(file, args, &mut EscapingWriter { inner: &mut inner, line: Vec::new() }).await,
        false => write(file, args, &mut inner).await,
    };
    match inner.broken {
        Some(error) => Err(CliError::Output(error)),
        None => written,
    }
}

/// Writes the export to a file. A regular file is replaced as a whole or not at all; anything else is written in place.
async fn to_file(file: &Path, target: &Path, args: &ExportArgs) -> Result<u64, CliError> {
    let refuse = |error: io::Error| CliError::message(format!("cannot write export {target:?}: {error}"));
    let place = ExportTarget::of(target).map_err(refuse)?;
    let path = match place {
        ExportTarget::Stream => {
            let stream = OpenOptions::new().write(true).open(target).map_err(refuse)?;
            return write(file, args, &mut BufWriter::new(stream)).await;
        }
        ExportTarget::File(path) => path,
    };
    if let Some(what) = part_of_store(file, &path) {
        return Err(CliError::message(format!("{target:?} is {what}; use another file for the export")));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = tempfile::NamedTempFile::new_in(folder).map_err(refuse)?;
    let runs = write(file, args, &mut BufWriter::new(beside.as_file())).await?;
    if let Ok(replaced) = path.metadata() {
        beside.as_file().set_permissions(replaced.permissions()).map_err(refuse)?;
    }
    beside.as_file().sync_all().map_err(refuse)?;
    beside.persist(&path).map_err(|error| refuse(error.error))?;
    Ok(runs)
}

/// What the path of an export leads to.
enum ExportTarget {
    /// A regular file that may not exist yet, with symbolic links resolved.
    File(PathBuf),
    /// A device, a pipe or a socket: written in place, never replaced.
    Stream,
}

impl ExportTarget {
    fn of(target: &Path) -> io::Result<Self> {
        match fs::metadata(target) {
            Ok(found) if found.is_file() => fs::canonicalize(target).map(Self::File),
            Ok(found) if found.is_dir() => Err(io::Error::other("it is a directory; name a file in it")),
            Ok(_) => Ok(Self::Stream),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self::File(unlinked(std::path::absolute(target)?)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the target of a chain of symbolic links, which does not exist yet.
fn unlinked(mut path: PathBuf) -> PathBuf {
    // Loops cannot occur here: all links of a loop exist, so the system has refused them before.
    while let Ok(next) = fs::read_link(&path) {
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Returns what a file is to the store, if it belongs to it.
fn part_of_store(store: &Path, path: &Path) -> Option<&'static str> {
    let store = fs::canonicalize(store).ok()?;
    let (folder, name) = (fs::canonicalize(path.parent()?).ok()?, path.file_name()?);
    let rest = folder.join(name);
    let rest = rest.as_os_str().as_encoded_bytes().strip_prefix(store.as_os_str().as_encoded_bytes())?;
    match rest {
        b"" => Some("the store itself"),
        b"-wal" | b"-shm" | b"-journal" | b".lock" => Some("a file that the store keeps next to it"),
        _ => None,
    }
}

async fn write(file: &Path, args: &ExportArgs, out: &mut impl Write) -> Result<u64, CliError> {
    let bar = progress::of_runs("exported");
    let shown = bar.clone();
    let written =
        outlive::export::write(file, filter(args), out, move |progress| progress::show(&shown, progress)).await;
    bar.finish_and_clear();
    Ok(written?)
}

fn filter(args: &ExportArgs) -> Filter {
    let mut filter = args.filter.filter();
    if !args.all && filter.statuses.is_empty() {
        filter.statuses = StatusKind::ALL.into_iter().filter(|kind| !kind.is_ended()).collect();
    }
    filter
}

/// A writer that remembers why a write failed.
struct StdoutWriter<W> {
    inner: W,
    broken: Option<io::Error>,
}

impl<W: Write> StdoutWriter<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.broken = Some(error);
            copy
        })
    }
}

impl<W: Write> Write for StdoutWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.inner.flush();
        self.note(done)
    }
}

/// Escapes lines of JSON for a terminal.
struct EscapingWriter<'a, W> {
    inner: &'a mut W,
    /// The line so far.
    line: Vec<u8>,
}

impl<W: Write> Write for EscapingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(line);
            if line.ends_with(b"\n") {
                self.inner.write_all(escape::json(&String::from_utf8_lossy(&self.line)).as_bytes())?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn export_on_a_terminal_is_escaped_across_split_writes() {
        let mut written = Vec::new();
        let mut shown = EscapingWriter { inner: &mut written, line: Vec::new() };
        for byte in "{\"a\":\"\u{202e}\"}\n{}\n".bytes() {
            shown.write_all(&[byte]).unwrap();
        }
        assert_eq!(String::from_utf8(written).unwrap(), "{\"a\":\"\\u202e\"}\n{}\n");
    }
}
