//! The handshake of a WebSocket (RFC 6455), and its frames over the connection.

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, Method, Response as HttpResponse, StatusCode};
use taskreel::BoxFuture;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::handler::message::{Response, ResponseBody, Socket};
use crate::limits::{BODY_MAX, SOCKET_BUFFER};

/// A WebSocket, at the server's end.
pub(crate) type WebSocket = WebSocketStream<Socket>;

/// The length of a key: 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_upgrade(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::GET && has_token(headers, &UPGRADE, "websocket")
}

/// Returns the response to a request for a WebSocket: the upgrade, after which `serve` holds the socket, or the refusal of
/// a handshake that does not follow RFC 6455.
pub(crate) fn upgrade(
    headers: &HeaderMap,
    serve: impl FnOnce(WebSocket) -> BoxFuture<'static, ()> + Send + 'static,
) -> Response {
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).filter(|key| is_key(key));
    let is_version = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    if !is_version {
        return refused(StatusCode::UPGRADE_REQUIRED);
    }
    let (Some(key), true) = (key, has_token(headers, &CONNECTION, "upgrade")) else {
        return refused(StatusCode::BAD_REQUEST);
    };
    let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key)) else {
        return refused(StatusCode::BAD_REQUEST);
    };
    let after = move |socket: Socket| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config())).await;
            serve(socket).await;
        })
    };
    let mut response = HttpResponse::new(ResponseBody::Upgrade(Box::new(after)));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    response
}

/// Returns the bounds of frames and buffers. Frames of a client must be masked, which is the library's rule.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * SOCKET_BUFFER + 4 * BODY_MAX)
        .max_message_size(Some(BODY_MAX))
        .max_frame_size(Some(BODY_MAX))
}

/// Whether a key has the form that the standard gives it.
fn is_key(key: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == KEY_LENGTH && key.ends_with(b"==") && key.iter().take(KEY_LENGTH - 2).all(is_letter)
}

/// Whether a header names this token, in any of its lines.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|named| named.trim().eq_ignore_ascii_case(token))
}

fn refused(status: StatusCode) -> Response {
    let mut response = HttpResponse::new(ResponseBody::Whole(Bytes::new()));
    *response.status_mut() = status;
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");

    fn answered(pairs: &[(&'static str, &'static str)]) -> Response {
        upgrade(&headers(pairs), |_| Box::pin(async {}))
    }

    #[test]
    fn the_handshake_answers_as_the_standard_s_example() {
        let response =
            answered(&[("connection", "keep-alive, Upgrade"), ("sec-websocket-version", "13"), KEY]);
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_handshake_without_its_key_version_or_connection_is_refused() {
        let version = ("sec-websocket-version", "13");
        let connection = ("connection", "upgrade");
        for (pairs, status) in [
            (vec![connection, KEY], 426),
            (vec![connection, KEY, ("sec-websocket-version", "8")], 426),
            (vec![connection, version], 400),
            (vec![connection, version, ("sec-websocket-key", "short")], 400),
            (vec![version, KEY], 400),
        ] {
            assert_eq!(answered(&pairs).status().as_u16(), status);
        }
    }
}
