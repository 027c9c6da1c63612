//! ReaderConnection threads, each on its own connection, so that no caller blocks and no read waits for a write.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use outlive_core::store::{Answered, Error, ErrorKind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error;
use crate::open::{self, Options, ReaderConnection};
use crate::unchanged_file::UnchangedFile;

/// A read, to be made on one of the threads.
type Question = Box<dyn FnOnce(&Connection) + Send>;

pub(crate) struct ReaderThreads {
    path: PathBuf,
    /// The file as it was when opened, if SQLite reads it as immutable.
    unchanged: Option<UnchangedFile>,
    /// `None` only while it is dropped.
    questions: Option<Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl ReaderThreads {
    /// Starts `threads` threads that share one queue of reads.
    pub(crate) fn start(path: &Path, options: &Options, name: &str, threads: usize) -> Result<Self, Error> {
        let (questions, asked) = mpsc::channel::<Question>();
        let mut reader =
            Self { path: path.to_owned(), unchanged: None, questions: Some(questions), threads: Vec::new() };
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..threads {
            let ReaderConnection { connection, unchanged } = open::reader(path, options)?;
            let asked = asked.clone();
            reader.unchanged = unchanged;
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
                while let Some(question) = next(&asked) {
                    question(&connection);
                }
            });
            reader.threads.push(thread.map_err(|e| no_thread(path, &e))?);
        }
        Ok(reader)
    }

    /// Reads on one of the threads. If the returned future is dropped before a thread picks it up, nothing is read.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answered<'_, T> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(move |connection: &Connection| {
            if !reply.is_closed() {
                let _ = reply.send(read(connection));
            }
        });
        Box::pin(async move {
            if let Some(questions) = &self.questions {
                // If the thread is gone, so is `reply`, and the caller gets that error.
                let _ = questions.send(question);
            }
            let read = answer.await.map_err(|_| error::gone(&self.path))?;
            self.unchanged.as_ref().map_or(Ok(()), UnchangedFile::check)?;
            read.map_err(|e| error::while_reading(&self.path, &e))
        })
    }

    /// Calls `read` repeatedly until it breaks with a result. Other callers are served in between, and if the returned
    /// future is dropped, no further read begins.
    pub(crate) fn ask_in_parts<S: Send + 'static, T: Send + 'static>(
        &self,
        mut state: S,
        read: fn(&mut S, &Connection) -> rusqlite::Result<ControlFlow<T>>,
    ) -> Answered<'_, T> {
        Box::pin(async move {
            loop {
                let part = self.ask(move |connection| read(&mut state, connection).map(|flow| (state, flow)));
                match part.await? {
                    (_, ControlFlow::Break(result)) => return Ok(result),
                    (after, ControlFlow::Continue(())) => state = after,
                }
            }
        })
    }
}

impl Drop for ReaderThreads {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Waits for the next read. Returns `None` once the reader is dropped.
fn next(asked: &Mutex<Receiver<Question>>) -> Option<Question> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// The error when the system cannot start another thread.
pub(crate) fn no_thread(path: &Path, e: &std::io::Error) -> Error {
    let message = format!("could not start a thread for {} ({e}); raise the thread limit (ulimit -u)", path.display());
    Error::new(ErrorKind::Open, message)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Waker};

    use super::*;

    fn reader(threads: usize) -> (tempfile::TempDir, ReaderThreads) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        drop(open::writer(&path, &Options::default()).unwrap());
        let reader = ReaderThreads::start(&path, &Options::default(), "test", threads).unwrap();
        (folder, reader)
    }

    /// Polls once, and returns while the read is pending.
    fn ask<T>(answer: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
        assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    /// What broke: six lists whose callers were gone ran to completion, and the next count waited for all of them.
    #[tokio::test]
    async fn abandoned_read_is_skipped() {
        let (_folder, reader) = reader(1);
        let (release, held) = mpsc::channel::<u32>();
        let mut first = reader.ask(move |_| Ok(held.recv().unwrap()));
        ask(&mut first);
        let reads = Arc::new(AtomicU32::new(0));
        for _ in 0..6 {
            let reads = reads.clone();
            ask(&mut reader.ask(move |_| Ok(reads.fetch_add(1, Ordering::SeqCst))));
        }
        release.send(1).unwrap();
        first.await.unwrap();
        reader.ask(|_| Ok(())).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn slow_read_does_not_block_the_next() {
        let (_folder, reader) = reader(2);
        let (release, held) = mpsc::channel::<u32>();
        let mut slow = reader.ask(move |_| Ok(held.recv().unwrap()));
        ask(&mut slow);
        for n in 0..3 {
            assert_eq!(reader.ask(move |_| Ok(n)).await.unwrap(), n);
        }
        release.send(1).unwrap();
        slow.await.unwrap();
    }

    /// What broke: a list whose caller was gone ran to completion.
    #[tokio::test]
    async fn abandoned_read_in_parts_stops() {
        fn read(parts: &mut Arc<AtomicU32>, _: &Connection) -> rusqlite::Result<ControlFlow<()>> {
            parts.fetch_add(1, Ordering::SeqCst);
            Ok(ControlFlow::Continue(()))
        }
        let (_folder, reader) = reader(1);
        let parts = Arc::new(AtomicU32::new(0));
        ask(&mut reader.ask_in_parts(parts.clone(), read));
        reader.ask(|_| Ok(())).await.unwrap();
        assert!(parts.load(Ordering::SeqCst) <= 1);
    }
}
