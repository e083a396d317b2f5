//! The socket file in the log's directory. A socket's path may have 107 bytes only, so that it is reached through
//! a descriptor of the directory where the system allows it.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Name of the socket in the log's directory.
pub const SOCKET_FILE: &str = "door";

/// Longest path of a socket in bytes, without the final zero.
const SOCKET_PATH_BYTES: usize = 107;

/// The directories in which this process has a socket, by device and inode.
static OPEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// The directory of a socket.
#[derive(Debug)]
pub(crate) struct SocketDirectory {
    dir: PathBuf,
    /// Open, so that the short name stands for the directory even if that is renamed.
    opened: File,
    /// The socket that was bound, to remove no other.
    bound: OnceLock<Bound>,
}

/// A socket's inode and the time of its last change: the number alone may be another file's by now.
type Bound = (u64, i64, i64);

fn identity(found: &Metadata) -> Bound {
    (found.ino(), found.ctime(), found.ctime_nsec())
}

impl SocketDirectory {
    pub(crate) fn from_dir(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), opened: File::open(dir)?, bound: OnceLock::new() })
    }

    /// Returns a path of the socket that is short enough.
    fn path(&self) -> io::Result<PathBuf> {
        let short = PathBuf::from(format!("/proc/self/fd/{}", self.opened.as_raw_fd()));
        if short.exists() {
            return Ok(short.join(SOCKET_FILE));
        }
        let plain = self.dir.join(SOCKET_FILE);
        if plain.as_os_str().len() <= SOCKET_PATH_BYTES {
            return Ok(plain);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the path {} is longer than the {SOCKET_PATH_BYTES} bytes of a socket", plain.display()),
        ))
    }

    fn key(&self) -> io::Result<(u64, u64)> {
        let found = self.opened.metadata()?;
        Ok((found.dev(), found.ino()))
    }

    /// Binds the socket, unless this process has a socket in the directory already. The caller holds the log: a socket that is
    /// there was left by a process that died.
    pub(crate) fn bind(&self) -> io::Result<UnixListener> {
        let (path, key) = (self.path()?, self.key()?);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains(&key) {
            let what = "another system of this process has its socket there";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => {
                // The directory may be another one by now, whose log a living program has.
                if self.is_answered()? {
                    let what = "another program has its socket there";
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
                }
                std::fs::remove_file(&path)?;
            }
            Ok(_) => {
                let what = format!("the directory has another file of the name `{SOCKET_FILE}`");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&path)?;
        // Other users who come before this are refused by what the system says of them.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let _ = self.bound.set(identity(&std::fs::symlink_metadata(&path)?));
        open.insert(key);
        Ok(listener)
    }

    /// Whether a program has the socket, though it may have no room for a client now.
    fn is_answered(&self) -> io::Result<bool> {
        use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, WouldBlock};
        match self.connect() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == WouldBlock => Ok(true),
            // Another user's, whose program had this directory before.
            Err(error) if matches!(error.kind(), ConnectionRefused | NotFound | PermissionDenied) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Connects to the socket, without waiting for a program that does not take its clients.
    #[cfg(target_os = "linux")]
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(self.path()?)?)?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Connects to the socket.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.path()?)
    }

    /// Removes the socket that was bound, unless another program has replaced it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if self.bound.get().is_some() {
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key()?);
        }
        let path = self.path()?;
        match std::fs::symlink_metadata(&path) {
            Ok(found) if self.bound.get() == Some(&identity(&found)) => std::fs::remove_file(path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_program_that_has_it_stays_and_one_that_nobody_has_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let other = UnixListener::bind(dir.path().join(SOCKET_FILE)).unwrap();
        let place = SocketDirectory::from_dir(dir.path()).unwrap();
        let refused = place.bind().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.to_string().contains("another program")),
            (io::ErrorKind::AlreadyExists, true)
        );
        // Room for one client.
        rustix::net::listen(&other, 0).unwrap();
        let waiting: Vec<_> = (0..2).map(|_| place.connect()).collect();
        assert!(
            waiting
                .iter()
                .any(|client| client.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        );
        assert!(place.bind().is_err(), "it has no room for a client, and is there all the same");
        assert_eq!(other.accept().map(|_| ()).ok(), Some(()), "whoever connects reaches it");
        drop((other, waiting));
        place.bind().unwrap();
        place.remove().unwrap();
        assert!(!dir.path().join(SOCKET_FILE).exists());
    }
}
