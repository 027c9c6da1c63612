//! A thread that reads on a connection of its own, so that no caller blocks and no read waits for a write.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use outlive_core::store::{Answered, Error, ErrorKind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error;
use crate::open::{self, Options, Reading};
use crate::still::Still;

type Question = Box<dyn FnOnce(&Connection) + Send>;

pub(crate) struct Reader {
    path: PathBuf,
    /// The file, if it is read as one that never changes.
    still: Option<Still>,
    /// `None` only while it is dropped.
    questions: Option<Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Opens a connection and starts the thread.
    pub(crate) fn start(path: &Path, options: &Options, name: &str) -> Result<Self, Error> {
        let Reading { connection, still } = open::reader(path, options)?;
        let (questions, asked) = mpsc::channel::<Question>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for question in asked {
                question(&connection);
            }
        });
        let thread = thread.map_err(|e| no_thread(path, &e))?;
        Ok(Self { path: path.to_owned(), still, questions: Some(questions), thread: Some(thread) })
    }

    /// Reads, and answers when it is done.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answered<'_, T> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(move |connection: &Connection| {
            let _ = reply.send(read(connection));
        });
        Box::pin(async move {
            if let Some(questions) = &self.questions {
                // If the thread is gone, so is `reply`, and that is what the caller hears.
                let _ = questions.send(question);
            }
            let read = answer.await.map_err(|_| error::gone(&self.path))?;
            self.still.as_ref().map_or(Ok(()), Still::check)?;
            read.map_err(|e| error::while_reading(&self.path, &e))
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The system has no thread to give.
pub(crate) fn no_thread(path: &Path, e: &std::io::Error) -> Error {
    let message =
        format!("no thread could be started for {} ({e}); raise the limit on threads (ulimit -u)", path.display());
    Error::new(ErrorKind::Open, message)
}
