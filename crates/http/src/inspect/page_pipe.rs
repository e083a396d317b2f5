//! Pages that are sent as they are made: written on a thread of their own, as fast as the browser takes them. When the browser goes
//! away, the reading of the log ends too.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use taskreel_log::api::EventReader;
use tokio::sync::{Semaphore, mpsc};

use crate::api::bounded_reads::{WatchedLog, turn};
use crate::api::records::Lines;
use crate::error::Problem;

/// The pieces that wait until the browser takes them.
const PIECES_WAITING: usize = 4;

/// Carries out what writes into a pipe, on the blocking pool, and returns what comes out of the pipe.
///
/// # Errors
/// [`Problem`] if too many others read.
pub(crate) async fn piped(
    turns: &Arc<Semaphore>,
    log: &Arc<dyn EventReader>,
    write: impl FnOnce(&WatchedLog<dyn EventReader>, &mut Pipe) + Send + 'static,
) -> Result<Lines, Problem> {
    let turn = turn(turns).await?;
    let (watched, waiting) = WatchedLog::new(Arc::clone(log));
    let (to, from) = mpsc::channel::<Bytes>(PIECES_WAITING);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        write(&watched, &mut Pipe(to));
    });
    let pieces = stream::unfold((from, waiting), |(mut from, waiting)| async {
        let piece = from.recv().await?;
        Some((piece, (from, waiting)))
    });
    Ok(pieces.boxed())
}

/// A pipe to an answer.
pub(crate) struct Pipe(mpsc::Sender<Bytes>);

impl Pipe {
    /// Sends a text; a browser that is gone hears nothing of it.
    pub(crate) fn push(&mut self, text: String) {
        let _gone = self.0.blocking_send(Bytes::from(text));
    }
}

impl io::Write for Pipe {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(piece));
        sent.map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
