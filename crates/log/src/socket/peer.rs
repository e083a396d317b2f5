//! The user at the other end of a socket, as the operating system states it.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The file in which the system lists its users.
const USERS_FILE: &str = "/etc/passwd";

/// The process at the other end of a socket, as the operating system states it: nothing here is the client's own word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The user's number.
    pub uid: u32,
    /// The process id.
    pub pid: u32,
}

impl Peer {
    /// Returns the peer of a connection.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_stream(stream: &UnixStream) -> io::Result<Self> {
        let found = rustix::net::sockopt::socket_peercred(stream)?;
        let pid = u32::try_from(found.pid.as_raw_pid()).unwrap_or(0);
        Ok(Self { uid: found.uid.as_raw(), pid })
    }

    /// Returns the error that this system does not state the peer of a connection in a way that we know.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &UnixStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether a socket of this process serves the peer: the same user, or root.
    pub(crate) fn is_welcome(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Returns the name of the user, `uid:` and the number if the system's list of users has none.
    pub fn user(&self) -> String {
        let users = std::fs::read_to_string(USERS_FILE).unwrap_or_default();
        name_in(&users, self.uid).map_or_else(|| format!("uid:{}", self.uid), str::to_owned)
    }
}

/// Whether the process at the other end has closed the connection. One that will send no more, and still reads, has not.
pub(crate) fn is_gone(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let told = poll(&mut asked, Some(&at_once)).is_ok_and(|count| count > 0);
    told && asked.iter().any(|asked| asked.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Returns the name of a user in a list of users.
fn name_in(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_the_list_of_users_and_otherwise_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n:x:7::\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!((name_in(users, 0), name_in(users, 1000)), (Some("root"), Some("ada")));
        assert_eq!((name_in(users, 7), name_in(users, 5)), (None, None));
        assert_eq!(Peer { uid: 4_294_967_290, pid: 1 }.user(), "uid:4294967290");
    }

    #[test]
    fn a_peer_that_has_closed_is_gone_and_one_that_sends_no_more_is_not() {
        let (here, there) = UnixStream::pair().unwrap();
        assert!(!is_gone(&here));
        there.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_gone(&here));
        drop(there);
        assert!(is_gone(&here));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peer_of_a_socket_is_this_process_and_is_welcome() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::from_stream(&here).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert!(peer.is_welcome());
        assert!(!Peer { uid: peer.uid.wrapping_add(12_345).max(1), ..peer }.is_welcome());
    }
}
