//! Bodies of JSON.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use proto_events::json::JsonText;

use crate::handler::body::{BodyError, RequestBody};
use crate::limits::BODY_MAX;

/// Reads a body that must be JSON, or `None` where it is empty. A body without a type is taken for JSON.
///
/// # Errors
/// [`BodyError`] if it is of another type, too long, broken, slow, or no JSON within the limits of depth.
pub(crate) async fn read_json(headers: &HeaderMap, body: RequestBody) -> Result<Option<JsonText>, BodyError> {
    check_type(headers)?;
    // Refused before it is read.
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_MAX as u64) {
        return Err(BodyError::TooLarge { limit: BODY_MAX });
    }
    let bytes = body.read(BODY_MAX).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let not_json = |error: &dyn std::fmt::Display| BodyError::NotJson(error.to_string());
    let text = std::str::from_utf8(&bytes).map_err(|error| not_json(&error))?;
    JsonText::parse(text).map(Some).map_err(|error| not_json(&error))
}

/// Refuses a body of another type, or an encoded one.
fn check_type(headers: &HeaderMap) -> Result<(), BodyError> {
    let named = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
    if let Some(encoding) = named(CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Err(BodyError::OtherType(shown(encoding)));
    }
    let Some(media) = named(CONTENT_TYPE) else { return Ok(()) };
    let kind = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json");
    if is_json { Ok(()) } else { Err(BodyError::OtherType(shown(media))) }
}

/// Returns a text from outside, short enough to be sent back.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    async fn read(media: Option<&str>, body: &str) -> Result<Option<JsonText>, BodyError> {
        let mut headers = HeaderMap::new();
        if let Some(media) = media {
            headers.insert(CONTENT_TYPE, media.parse().unwrap());
        }
        read_json(&headers, RequestBody::from(Bytes::from(body.to_owned()))).await
    }

    #[tokio::test]
    async fn json_is_read_by_its_type_or_without_one() {
        for media in [
            None,
            Some("application/json"),
            Some("Application/JSON; charset=utf-8"),
            Some("application/a+json"),
        ] {
            assert_eq!(read(media, "{\"a\":1.0}").await.unwrap().unwrap().as_str(), "{\"a\":1.0}");
        }
        assert!(matches!(read(Some("text/plain"), "{}").await, Err(BodyError::OtherType(_))));
        assert!(read(None, " \n").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_json_or_too_deep_is_refused_without_a_deep_stack() {
        assert!(matches!(read(None, "{nope").await, Err(BodyError::NotJson(_))));
        assert!(matches!(read(None, "{} {}").await, Err(BodyError::NotJson(_))));
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(matches!(read(None, &deep).await, Err(BodyError::NotJson(_))));
    }

    #[tokio::test]
    async fn an_encoded_body_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let refused = read_json(&headers, RequestBody::from(Bytes::from("{}"))).await;
        assert!(matches!(refused, Err(BodyError::OtherType(_))));
    }
}
