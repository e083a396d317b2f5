//! The socket of a door in the log's directory. A socket's path may have 107 bytes only, so that it is reached through
//! a descriptor of the directory where the system allows it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Name of the socket in the log's directory.
pub const DOOR_FILE: &str = "door";

/// Longest path of a socket in bytes, without the final zero.
const SOCKET_PATH_BYTES: usize = 107;

/// The directory of a door.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    /// Open, so that the short name stands for the directory even if that is renamed.
    opened: File,
}

impl Place {
    pub(crate) fn of(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), opened: File::open(dir)? })
    }

    /// Returns a path of the socket that is short enough.
    fn path(&self) -> io::Result<PathBuf> {
        let short = PathBuf::from(format!("/proc/self/fd/{}", self.opened.as_raw_fd()));
        if short.exists() {
            return Ok(short.join(DOOR_FILE));
        }
        let plain = self.dir.join(DOOR_FILE);
        if plain.as_os_str().len() <= SOCKET_PATH_BYTES {
            return Ok(plain);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the path {} is longer than the {SOCKET_PATH_BYTES} bytes of a socket", plain.display()),
        ))
    }

    /// Binds the socket. The caller holds the log: a socket that is there was left by a process that died.
    pub(crate) fn bind(&self) -> io::Result<UnixListener> {
        let path = self.path()?;
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(&path)?,
            Ok(_) => {
                let what = format!("the directory has another file of the name `{DOOR_FILE}`");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&path)?;
        // Other users who come before this are refused by what the system says of them.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
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

    /// Removes the socket.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(self.path()?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
