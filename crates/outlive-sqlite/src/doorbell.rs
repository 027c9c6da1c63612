//! The doorbell: a socket next to the store that other processes ring after a commit, so an idle executor can sleep.

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

    use crate::place::FileIdentity;

    /// The longest socket path that every Unix accepts.
    const NAME_MAX: usize = 100;

    /// The executor's end. Dropping it removes the socket.
    #[derive(Debug)]
    pub(crate) struct Doorbell {
        path: PathBuf,
        socket: Arc<UnixDatagram>,
        is_over: Arc<AtomicBool>,
        /// The socket file that `path` led to when it was bound.
        identity: Option<FileIdentity>,
    }

    impl Doorbell {
        /// Puts up the doorbell of the store at `store`, whose lock the caller holds. Calls `rung` on a separate thread
        /// soon after each ring.
        ///
        /// # Errors
        /// Returns an error if another file has the socket's name, or the system does not support such sockets.
        pub(crate) fn put_up(store: &Path, rung: impl Fn() + Send + 'static) -> io::Result<Self> {
            let path = path_of(store);
            match fs::symlink_metadata(&path) {
                // Its owner has died, or it would hold the lock.
                Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
                Ok(_) => return Err(io::Error::other("another file has its name")),
                Err(_) => {}
            }
            let name = SocketPath::of(&path)?;
            let socket = Arc::new(UnixDatagram::bind(&name.path)?);
            let is_over = Arc::new(AtomicBool::new(false));
            let identity = FileIdentity::at(&path);
            let bell = Self { path, socket, is_over, identity };
            // Every user that can write the store can ring.
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
            // Unblocks the receiving thread.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
            if FileIdentity::at(&self.path) == self.identity {
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// The other processes' end.
    #[derive(Debug)]
    pub(crate) struct Ringer {
        path: PathBuf,
        /// Created on first use.
        way: Option<(UnixDatagram, SocketPath)>,
    }

    impl Ringer {
        pub(crate) fn new(store: &Path) -> Self {
            Self { path: path_of(store), way: None }
        }

        /// Rings if there is a doorbell, and returns `true` if there is. Never blocks: a full socket buffer already
        /// holds enough rings.
        pub(crate) fn ring(&mut self) -> bool {
            let is_there = fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket());
            if is_there && self.try_ring().is_err() {
                // Its owner may have died; the next one finds the write anyway.
                self.way = None;
            }
            is_there
        }

        fn try_ring(&mut self) -> io::Result<()> {
            if self.way.is_none() {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                self.way = Some((socket, SocketPath::of(&self.path)?));
            }
            let Some((socket, name)) = &self.way else { return Ok(()) };
            socket.send_to(&[0], &name.path).map(drop)
        }
    }

    /// A socket path short enough for the system.
    #[derive(Debug)]
    struct SocketPath {
        path: PathBuf,
        /// Kept open while the path is in use, as the path may refer to its descriptor.
        _folder: Option<File>,
    }

    impl SocketPath {
        /// Shortens a path that is too long for a socket: Linux has a short name for each open directory.
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

    /// Never constructed: this platform has no such sockets.
    #[derive(Debug)]
    pub(crate) enum Doorbell {}

    impl Doorbell {
        pub(crate) fn put_up(_: &Path, _: impl Fn() + Send + 'static) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Does nothing.
    #[derive(Debug)]
    pub(crate) struct Ringer;

    impl Ringer {
        pub(crate) fn new(_: &Path) -> Self {
            Self
        }

        pub(crate) fn ring(&mut self) -> bool {
            false
        }
    }
}
