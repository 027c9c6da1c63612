//! The doorbell: a socket beside the store that other processes ring after a commit, so that an idle executor can sleep.

#[cfg(not(unix))]
pub(crate) use absent::{Doorbell, Ringer};
#[cfg(unix)]
pub(crate) use unix::{Doorbell, Ringer};

#[cfg(unix)]
mod unix {
    use std::ffi::OsString;
    use std::fs::{self, File, Permissions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::UnixDatagram;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use crate::place::Identity;

    /// The longest name that every Unix takes for a socket.
    const NAME_MAX: usize = 100;

    /// The executor's end: it is rung until the value is dropped, and then removed.
    #[derive(Debug)]
    pub(crate) struct Doorbell {
        path: PathBuf,
        socket: Arc<UnixDatagram>,
        is_over: Arc<AtomicBool>,
        /// The file, as long as `path` leads to it.
        identity: Option<Identity>,
    }

    impl Doorbell {
        /// Puts up the doorbell of the store at `store`, which the caller has the lock of. `rung` is called from a thread
        /// of its own, soon after somebody has rung.
        ///
        /// # Errors
        /// If there is something else in its place, or the system has no such sockets.
        pub(crate) fn put_up(store: &Path, rung: impl Fn() + Send + 'static) -> io::Result<Self> {
            let path = path_of(store);
            match fs::symlink_metadata(&path) {
                // Its owner has died: else it would have the lock.
                Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
                Ok(_) => return Err(io::Error::other("there is something else in its place")),
                Err(_) => {}
            }
            let name = Name::of(&path)?;
            let socket = Arc::new(UnixDatagram::bind(&name.path)?);
            let is_over = Arc::new(AtomicBool::new(false));
            let identity = Identity::at(&path);
            let bell = Self { path, socket, is_over, identity };
            // Who may write the store may ring.
            let mode = fs::metadata(store)?.permissions().mode() & 0o666;
            fs::set_permissions(&bell.path, Permissions::from_mode(mode))?;
            let (socket, is_over) = (bell.socket.clone(), bell.is_over.clone());
            thread::Builder::new().name("outlive-doorbell".to_owned()).spawn(move || {
                loop {
                    match socket.recv(&mut [0]) {
                        Ok(_) if !is_over.load(Ordering::SeqCst) => rung(),
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                        _ => break,
                    }
                }
            })?;
            Ok(bell)
        }
    }

    impl Drop for Doorbell {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::SeqCst);
            // Its thread comes back from waiting.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
            if Identity::at(&self.path) == self.identity {
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// The end of everybody else.
    #[derive(Debug)]
    pub(crate) struct Ringer {
        path: PathBuf,
        /// Made when it is first needed.
        way: Option<(UnixDatagram, Name)>,
    }

    impl Ringer {
        pub(crate) fn new(store: &Path) -> Self {
            Self { path: path_of(store), way: None }
        }

        /// Rings if there is a doorbell. It never waits: a doorbell that takes no more rings has enough of them.
        pub(crate) fn ring(&mut self) {
            let is_there = fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket());
            if is_there && self.try_ring().is_err() {
                // Its owner may have died, and the next one finds what was written.
                self.way = None;
            }
        }

        fn try_ring(&mut self) -> io::Result<()> {
            if self.way.is_none() {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                self.way = Some((socket, Name::of(&self.path)?));
            }
            let Some((socket, name)) = &self.way else { return Ok(()) };
            socket.send_to(&[0], &name.path).map(drop)
        }
    }

    /// A name for a socket that the system takes.
    #[derive(Debug)]
    struct Name {
        path: PathBuf,
        /// Kept open while the name is in use, as the name may go by its number.
        _folder: Option<File>,
    }

    impl Name {
        /// Names of sockets are short. Linux has a short name for each open folder.
        fn of(path: &Path) -> io::Result<Self> {
            if path.as_os_str().len() <= NAME_MAX {
                return Ok(Self { path: path.to_owned(), _folder: None });
            }
            let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let folder = File::open(folder)?;
            let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(file);
            Ok(Self { path, _folder: Some(folder) })
        }
    }

    fn path_of(store: &Path) -> PathBuf {
        let mut path = OsString::from(store);
        path.push(".wake");
        path.into()
    }
}

#[cfg(not(unix))]
mod absent {
    use std::io;
    use std::path::Path;

    /// There are no such sockets here.
    #[derive(Debug)]
    pub(crate) enum Doorbell {}

    impl Doorbell {
        pub(crate) fn put_up(_: &Path, _: impl Fn() + Send + 'static) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Rings nowhere.
    #[derive(Debug)]
    pub(crate) struct Ringer;

    impl Ringer {
        pub(crate) fn new(_: &Path) -> Self {
            Self
        }

        pub(crate) fn ring(&mut self) {}
    }
}
