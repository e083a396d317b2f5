//! The body of a request, which arrives piece by piece.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};

use crate::limits::{BODY_PAUSE_MAX, BODY_TIME_MAX};

/// The body of a request, read once.
pub struct RequestBody {
    pieces: BoxStream<'static, Result<Bytes, BodyError>>,
    times: BodyTimes,
}

/// The times in which a body must arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyTimes {
    /// The longest pause between two pieces.
    pub pause: Duration,
    /// The longest time for the whole body.
    pub whole: Duration,
}

impl Default for BodyTimes {
    fn default() -> Self {
        Self { pause: BODY_PAUSE_MAX, whole: BODY_TIME_MAX }
    }
}

/// The reason why a body could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than it may be.
    #[error("the body has more than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
    /// The body did not arrive whole.
    #[error("the body did not arrive whole: {0}")]
    Broken(String),
    /// The body did not arrive in time.
    #[error("the body did not arrive in time")]
    Slow,
    /// The body is of a type, or encoded in a way, that is not read here.
    #[error("the body must be JSON, as `application/json`, without an encoding; this one is `{0}`")]
    OtherType(String),
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestBody").field("times", &self.times).finish_non_exhaustive()
    }
}

impl RequestBody {
    /// Returns a body of these pieces.
    pub fn new(pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self { pieces: pieces.boxed(), times: BodyTimes::default() }
    }

    /// Returns a body without bytes.
    pub fn empty() -> Self {
        Self::new(stream::empty())
    }

    /// Returns the body with other times in which it must arrive.
    #[must_use]
    pub fn within(mut self, times: BodyTimes) -> Self {
        self.times = times;
        self
    }

    /// Returns the pieces, for bodies that never stand in memory whole, such as the bytes of a socket.
    pub fn into_pieces(self) -> BoxStream<'static, Result<Bytes, BodyError>> {
        self.pieces
    }

    /// Reads the whole body, and stops as soon as it is longer than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`] if it is longer, or did not arrive whole and in time.
    pub async fn read(self, limit: usize) -> Result<Bytes, BodyError> {
        let Self { pieces, times } = self;
        read_whole(pieces, times, limit).await
    }
}

/// Reads the pieces of a body, in time, up to a bound.
pub(crate) async fn read_whole(
    pieces: impl Stream<Item = Result<Bytes, BodyError>> + Unpin,
    times: BodyTimes,
    limit: usize,
) -> Result<Bytes, BodyError> {
    let read = read_pieces(pieces, times.pause, limit);
    tokio::time::timeout(times.whole, read).await.unwrap_or(Err(BodyError::Slow))
}

async fn read_pieces(
    mut pieces: impl Stream<Item = Result<Bytes, BodyError>> + Unpin,
    pause: Duration,
    limit: usize,
) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(piece) =
        tokio::time::timeout(pause, pieces.next()).await.map_err(|_late| BodyError::Slow)?
    {
        let piece = piece?;
        if whole.len().saturating_add(piece.len()) > limit {
            return Err(BodyError::TooLarge { limit });
        }
        if whole.is_empty() && pieces.size_hint().1 == Some(0) {
            return Ok(piece);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

impl From<Bytes> for RequestBody {
    fn from(whole: Bytes) -> Self {
        Self::new(stream::iter((!whole.is_empty()).then_some(Ok(whole))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> RequestBody {
        RequestBody::new(stream::iter([Ok(Bytes::from("ab")), Ok(Bytes::from("cd"))]))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound_and_no_further() {
        assert_eq!(pieces().read(4).await.unwrap(), "abcd");
        assert!(matches!(pieces().read(3).await, Err(BodyError::TooLarge { limit: 3 })));
        assert_eq!(RequestBody::from(Bytes::from("abc")).read(3).await.unwrap(), "abc");
    }

    #[tokio::test]
    async fn a_body_that_pauses_too_long_and_one_that_drips_are_given_up() {
        let times = BodyTimes { pause: Duration::from_millis(200), whole: Duration::from_millis(500) };
        let stalled =
            stream::iter([Ok(Bytes::from("ab"))]).chain(stream::poll_fn(|_| std::task::Poll::Pending));
        assert!(matches!(RequestBody::new(stalled).within(times).read(9).await, Err(BodyError::Slow)));
        let drip = stream::repeat_with(|| Ok(Bytes::from("a"))).then(|piece| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            piece
        });
        let drip = RequestBody::new(drip).within(times).read(1_000_000);
        assert!(matches!(drip.await, Err(BodyError::Slow)));
    }
}
