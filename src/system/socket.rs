//! The local socket of a running system: it is open while the system holds its log, so that nobody stops a service to look
//! at it or to decide.

pub(crate) mod decisions;

use std::sync::Arc;

use crate::system::handle::System;
use crate::system::socket::decisions::Decisions;

impl System {
    /// Opens the socket over the current log, or joins that of another system of this process over the same log. A system
    /// without a socket works all the same.
    pub(crate) fn open_socket(&self) {
        self.inner.socket.join(self.log(), Arc::new(Decisions::from_system(self)));
    }

    /// Returns why the local socket is shut although it was asked for; `None` if it is open, or was not asked for.
    pub fn socket_fault(&self) -> Option<String> {
        self.inner.socket.fault()
    }
}
