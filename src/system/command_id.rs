//! The id of a command that is sent through a handle.

use proto_events::envelope::MADE_COMMAND;
use taskreel_log::ports::Ports;

use crate::actors::shared::messages::Cause;

/// The id of a command that was sent, for the errors that name it.
pub(crate) enum SentId {
    /// The caller's own.
    Callers(String),
    /// Made from these random bytes, since the caller named none.
    Made([u8; 16]),
}

impl SentId {
    /// Returns the id of a command of this cause, which gets one if the caller named none.
    pub(crate) fn new(cause: &mut Cause, ports: &Ports) -> Self {
        let id = if cause.command_id.is_empty() {
            let id = Self::Made(ports.ids.random());
            cause.command_id = id.text();
            id
        } else {
            Self::Callers(cause.command_id.clone())
        };
        if cause.correlation_id.is_empty() {
            cause.correlation_id.clone_from(&cause.command_id);
        }
        id
    }

    pub(crate) fn text(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |of: u8| DIGITS.get(usize::from(of & 0xf)).copied().unwrap_or(b'0');
        match self {
            Self::Callers(id) => id.clone(),
            Self::Made(random) => {
                let mut digits = [0; 32];
                for (pair, byte) in digits.chunks_exact_mut(2).zip(random) {
                    pair.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
                }
                let mut id = String::with_capacity(MADE_COMMAND.len() + digits.len());
                id.push_str(MADE_COMMAND);
                // They are all digits.
                id.push_str(std::str::from_utf8(&digits).unwrap_or_default());
                id
            }
        }
    }
}
