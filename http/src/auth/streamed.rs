//! Bodies that are bounded in time, and responses that hold their places until they are sent.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::auth::quota::Place;
use crate::face::body::{BodyError, RequestBody};
use crate::face::message::{Response, ResponseBody};

/// Returns the body with a bound for the time without a byte.
pub(crate) fn impatient(body: RequestBody, idle: Duration) -> RequestBody {
    let late = move || BodyError::Broken(format!("no byte came for {} seconds", idle.as_secs()));
    let pieces = stream::unfold(Some(body.into_pieces()), move |pieces| async move {
        let mut pieces = pieces?;
        match tokio::time::timeout(idle, pieces.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => Some((Err(late()), None)),
        }
    });
    RequestBody::new(pieces)
}

/// Returns the response, whose stream or socket holds these places until it ends.
pub(crate) fn holding(response: Response, places: Vec<Place>) -> Response {
    let (head, body) = response.into_parts();
    let body = match body {
        ResponseBody::Whole(bytes) => ResponseBody::Whole(bytes),
        ResponseBody::Pieces(pieces) => ResponseBody::Pieces(held(pieces, places).boxed()),
        ResponseBody::Upgrade(then) => ResponseBody::Upgrade(Box::new(move |socket| {
            let work = then(socket);
            Box::pin(async move {
                work.await;
                drop(places);
            })
        })),
    };
    Response::from_parts(head, body)
}

fn held(
    pieces: stream::BoxStream<'static, Bytes>,
    places: Vec<Place>,
) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
    stream::unfold((pieces, places), |(mut pieces, places)| async move {
        pieces.next().await.map(|piece| (piece, (pieces, places)))
    })
}
