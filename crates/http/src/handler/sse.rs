//! Server-sent events: one frame after another, with a comment where nothing comes for a while. A frame is made when the
//! client takes it, so that nothing is buffered beyond the socket, and the source of the frames is dropped when the
//! client goes away.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use http::Response as HttpResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use proto_events::json::JsonText;
use tokio::time::{Instant, Sleep};

use crate::handler::message::{Response, ResponseBody};

/// A frame of an event stream.
#[derive(Debug, Clone)]
pub(crate) struct SseFrame {
    /// The place after this frame, from which a client continues with `Last-Event-ID`. It has no line end.
    pub(crate) id: Option<String>,
    /// The data.
    pub(crate) data: JsonText,
}

impl SseFrame {
    fn to_bytes(&self) -> Bytes {
        let data = self.data.as_str();
        let mut text = String::with_capacity(data.len() + 48);
        if let Some(id) = &self.id {
            text.push_str("id: ");
            text.push_str(id);
            text.push('\n');
        }
        text.push_str("data: ");
        // A line end in JSON stands between tokens, where a space means the same.
        if data.contains(['\n', '\r']) {
            text.extend(data.chars().map(|letter| if matches!(letter, '\n' | '\r') { ' ' } else { letter }));
        } else {
            text.push_str(data);
        }
        text.push_str("\n\n");
        Bytes::from(text)
    }
}

/// Returns the response that sends these frames, with a comment after each `pause` without one.
pub(crate) fn event_stream(
    frames: impl Stream<Item = SseFrame> + Send + 'static,
    pause: Duration,
) -> Response {
    let pieces = Heartbeats { frames: frames.boxed(), pause, next: Box::pin(tokio::time::sleep(pause)) };
    let mut response = HttpResponse::new(ResponseBody::Pieces(pieces.boxed()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks a proxy not to hold frames back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Frames, with comments in their pauses.
struct Heartbeats {
    frames: BoxStream<'static, SseFrame>,
    pause: Duration,
    next: Pin<Box<Sleep>>,
}

impl Stream for Heartbeats {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let piece = match self.frames.as_mut().poll_next(cx) {
            Poll::Ready(frame) => frame.map(|frame| frame.to_bytes()),
            Poll::Pending if self.next.as_mut().poll(cx).is_ready() => Some(Bytes::from_static(b": \n\n")),
            Poll::Pending => return Poll::Pending,
        };
        let until = Instant::now() + self.pause;
        self.next.as_mut().reset(until);
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn pieces(response: Response) -> BoxStream<'static, Bytes> {
        match response.into_body() {
            ResponseBody::Pieces(pieces) => pieces,
            other => panic!("the body comes in pieces: {other:?}"),
        }
    }

    fn frame(id: Option<&str>, data: &str) -> SseFrame {
        SseFrame { id: id.map(str::to_owned), data: JsonText::parse(data).unwrap() }
    }

    #[tokio::test]
    async fn a_frame_is_one_line_of_data_whatever_the_json_looks_like() {
        let frames = stream::iter([frame(Some("7"), "{\"a\":\n\r\n \"x\\n\"}"), frame(None, "1")]);
        let pieces: Vec<_> = pieces(event_stream(frames, Duration::from_secs(1))).collect().await;
        assert_eq!(pieces, ["id: 7\ndata: {\"a\":    \"x\\n\"}\n\n", "data: 1\n\n"]);
    }

    #[tokio::test]
    async fn a_pause_is_filled_with_comments() {
        let mut pieces = pieces(event_stream(stream::pending(), Duration::from_millis(20)));
        let begun = Instant::now();
        assert_eq!(pieces.next().await.unwrap(), ": \n\n");
        assert_eq!(pieces.next().await.unwrap(), ": \n\n");
        assert!(begun.elapsed() >= Duration::from_millis(40));
    }
}
