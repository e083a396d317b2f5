//! Words to the service manager (systemd): ready, alive, stopping. Nothing is said without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taskreel::System;

/// The shortest pause between two signs of life.
const ALIVE_EVERY_MIN: Duration = Duration::from_millis(100);

/// The service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Notify {
    #[cfg(unix)]
    socket: Option<manager::Manager>,
    /// The pause after which it expects a sign of life at the latest.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Returns the manager that the environment names.
    pub(crate) fn from_env() -> Self {
        Self {
            #[cfg(unix)]
            socket: manager::Manager::from_env(),
            watchdog: watchdog(
                std::env::var("WATCHDOG_USEC").ok().as_deref(),
                std::env::var("WATCHDOG_PID").ok().as_deref(),
                std::process::id(),
            ),
        }
    }

    /// Says that the service is ready, and where.
    pub(crate) fn ready(&self, address: &str) {
        self.send(&format!("READY=1\nSTATUS=listening at {address}\n"));
    }

    /// Says that the service is about to end.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping\n");
    }

    /// Says for ever that the service is alive, while it takes work or opens its log again: a manager that started it anew could
    /// do no more, and gives up after a few times.
    pub(crate) async fn watch(&self, system: &System, is_reopening: &AtomicBool) {
        let Some(within) = self.watchdog else { return std::future::pending().await };
        loop {
            let health = system.health().await;
            if health.is_ok_and(|health| health.open || is_reopening.load(Ordering::Acquire)) {
                self.send("WATCHDOG=1\n");
            }
            tokio::time::sleep((within / 2).max(ALIVE_EVERY_MIN)).await;
        }
    }

    #[cfg(unix)]
    fn send(&self, words: &str) {
        if let Some(socket) = &self.socket {
            socket.send(words);
        }
    }

    #[cfg(not(unix))]
    fn send(&self, _: &str) {}
}

/// Returns the time within which a sign of life is expected of this process.
fn watchdog(micros: Option<&str>, of: Option<&str>, own: u32) -> Option<Duration> {
    let is_mine = of.is_none_or(|of| of == own.to_string());
    let micros: u64 = micros.filter(|_| is_mine)?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

#[cfg(unix)]
mod manager {
    //! The socket of the manager.

    use std::ffi::OsString;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use crate::print::screen::note;

    /// The socket of the manager.
    #[derive(Debug)]
    pub(super) struct Manager {
        socket: UnixDatagram,
        to: SocketAddr,
    }

    impl Manager {
        /// Returns the manager at `NOTIFY_SOCKET`.
        pub(super) fn from_env() -> Option<Self> {
            let name = std::env::var_os("NOTIFY_SOCKET")?;
            let made = address(&name).and_then(|to| {
                let socket = UnixDatagram::unbound()?;
                // A manager that does not listen must not hold the service up.
                socket.set_nonblocking(true)?;
                Ok(Self { socket, to })
            });
            made.map_err(|error| note(&format!("note: the service manager cannot be told: {error}"))).ok()
        }

        /// Sends words; a receiver that does not take them is not waited for.
        pub(super) fn send(&self, words: &str) {
            let _ = self.socket.send_to_addr(words.as_bytes(), &self.to);
        }
    }

    /// Returns the address of a name: a path, or after `@` a name that is not a file.
    fn address(name: &OsString) -> std::io::Result<SocketAddr> {
        match name.as_bytes().strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(abstract_name) => {
                use std::os::linux::net::SocketAddrExt as _;
                SocketAddr::from_abstract_name(abstract_name)
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
            None => SocketAddr::from_pathname(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_process_is_not_this_ones() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None, 7), second);
        assert_eq!(watchdog(Some("1000000"), Some("7"), 7), second);
        assert_eq!(watchdog(Some("1000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(Some("x"), None, 7), None);
        assert_eq!(watchdog(None, Some("7"), 7), None);
    }
}
