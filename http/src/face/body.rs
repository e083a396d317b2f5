//! The body of a request, which arrives piece by piece.

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};

/// The body of a request, read once.
pub struct RequestBody {
    pieces: BoxStream<'static, Result<Bytes, BodyError>>,
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
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestBody").finish_non_exhaustive()
    }
}

impl RequestBody {
    /// Returns a body of these pieces.
    pub fn new(pieces: impl futures_util::Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self { pieces: pieces.boxed() }
    }

    /// Returns a body without bytes.
    pub fn empty() -> Self {
        Self::new(stream::empty())
    }

    /// Returns the pieces, for bodies that never stand in memory whole, such as the bytes of a socket.
    pub fn into_pieces(self) -> BoxStream<'static, Result<Bytes, BodyError>> {
        self.pieces
    }

    /// Reads the whole body, and stops as soon as it is longer than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`] if it is longer, or did not arrive whole.
    pub async fn read(mut self, limit: usize) -> Result<Bytes, BodyError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.pieces.next().await {
            let piece = piece?;
            if whole.len().saturating_add(piece.len()) > limit {
                return Err(BodyError::TooLarge { limit });
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

impl From<Bytes> for RequestBody {
    fn from(whole: Bytes) -> Self {
        Self::new(stream::iter((!whole.is_empty()).then_some(Ok(whole))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound_and_no_further() {
        let pieces = || RequestBody::new(stream::iter([Ok(Bytes::from("ab")), Ok(Bytes::from("cd"))]));
        assert_eq!(pieces().read(4).await.unwrap(), "abcd");
        assert!(matches!(pieces().read(3).await, Err(BodyError::TooLarge { limit: 3 })));
    }
}
