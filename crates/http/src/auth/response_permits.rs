//! Responses that hold their places until they are sent.

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::auth::quota::QuotaPermit;
use crate::handler::message::{Response, ResponseBody};

/// Returns the response, whose stream or socket holds these places until it ends.
pub(crate) fn holding(response: Response, places: Vec<QuotaPermit>) -> Response {
    let (head, body) = response.into_parts();
    let body = match body {
        ResponseBody::Whole(bytes) => ResponseBody::Whole(bytes),
        ResponseBody::Pieces(pieces) => ResponseBody::Pieces(hold_permits(pieces, places).boxed()),
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

fn hold_permits(
    pieces: stream::BoxStream<'static, Bytes>,
    places: Vec<QuotaPermit>,
) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
    stream::unfold((pieces, places), |(mut pieces, places)| async move {
        pieces.next().await.map(|piece| (piece, (pieces, places)))
    })
}
