//! An HTTP exchange: the request, the answer, and all errors.

use std::ops::Deref;
use std::sync::Arc;

use proto_events::json::{JsonText, JsonValue as Value};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};

use crate::grammar::decode::cut;
use crate::http_client::with_causes;
use crate::limits::INFER_ERROR_BYTES_MAX;
use crate::models::backend::{InferError, InferErrorKind, InferReply, InferRequest, spread_wait};
use crate::models::providers::common::{failed, malformed, passing, retry_after};
use crate::models::providers::openai::answer::{Answer, read_error};
use crate::models::providers::openai::body::Body;
use crate::models::providers::openai::settings::Settings;
use crate::models::providers::openai::sse::{Decoder, Event, Unreadable};
use crate::models::providers::secrets::{SecretFilter, Secrets};

/// The most bytes of a stream for each byte of its answer: each token comes in an event of its own, with
/// comments in between.
const STREAM_BYTES_PER_BYTE: usize = 64;

/// Sends the request and reads its answer. Dropping the future ends the exchange.
pub(crate) async fn exchange(
    client: &Client,
    settings: &Settings,
    url: Url,
    key: Option<Arc<str>>,
    request: InferRequest,
) -> Result<InferReply, InferError> {
    let body = Body::of(settings, &request);
    let mut secrets = settings.secrets.clone();
    let mut post = client.post(url).headers(settings.headers.clone()).json(&body.json);
    if let Some(key) = &key {
        secrets.add(key);
        post = post.bearer_auth(key);
    }
    let exchange = Exchange { settings, secrets: &secrets, body: &body, request: &request };
    let replied = match post.send().await {
        Ok(response) => exchange.read(response).await,
        Err(error) => Err(exchange.lost(error)),
    };
    secrets.redact_outcome(replied)
}

/// The context for reading an answer.
struct Exchange<'a> {
    settings: &'a Settings,
    secrets: &'a Secrets,
    body: &'a Body,
    request: &'a InferRequest,
}

impl Exchange<'_> {
    async fn read(&self, response: Response) -> Result<InferReply, InferError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(redirected(status.as_u16(), response.headers()));
        }
        if !status.is_success() {
            return Err(self.refused(response).await);
        }
        let kind = content_type(response.headers());
        let answer = match kind.as_str() {
            "text/event-stream" => self.stream(response).await?,
            // A server may omit the type, or send a whole answer although a stream was requested.
            "" | "application/json" => self.whole(response).await?,
            other if other.ends_with("+json") => self.whole(response).await?,
            other => {
                let start = self.start_of(response).await;
                let why = format!(
                    "the server answered {other} and not JSON; check the base URL. The body begins: {}",
                    start.trim()
                );
                return Err(failed("WrongContentType", why));
            }
        };
        answer.reply(&self.body.names, &self.settings.model)
    }

    async fn whole(&self, response: Response) -> Result<Answer, InferError> {
        let bytes = self.bytes(response, self.settings.answer_bytes_max).await?;
        let json = parse(&bytes)?;
        let mut answer = Answer::default();
        self.request.deltas.say(&self.secrets.redact(answer.take(&json)?));
        Ok(answer)
    }

    /// Reads a stream and passes its pieces on.
    async fn stream(&self, response: Response) -> Result<Answer, InferError> {
        let mut filter = self.secrets.filter();
        let mut answer = Answer::default();
        let read = self.pieces(response, &mut answer, &mut filter).await;
        read.map_err(|error| answer.before(error))?;
        self.say(&filter.rest());
        Ok(answer)
    }

    async fn pieces(
        &self,
        mut response: Response,
        answer: &mut Answer,
        filter: &mut SecretFilter<'_>,
    ) -> Result<(), InferError> {
        let most = self.settings.answer_bytes_max;
        let mut decoder = Decoder::new(most);
        let mut bytes_in = 0_usize;
        while let Some(bytes) = self.next(&mut response).await? {
            bytes_in = bytes_in.saturating_add(bytes.len());
            for event in decoder.feed(&bytes).map_err(|why| self.unreadable(&why))? {
                if is_end(&event) {
                    return Ok(());
                }
                self.take(answer, &event, filter)?;
            }
            if answer.len() > most || bytes_in > most.saturating_mul(STREAM_BYTES_PER_BYTE) {
                return Err(self.too_large());
            }
        }
        let ended = decoder.rest().is_some_and(|event| is_end(&event));
        if ended || answer.is_finished() {
            return Ok(());
        }
        let why = "the connection ended in the middle of the answer";
        Err(passing("ConnectionError", why.to_owned(), None))
    }

    fn take(
        &self,
        answer: &mut Answer,
        event: &Event,
        filter: &mut SecretFilter<'_>,
    ) -> Result<(), InferError> {
        if event.data.trim().is_empty() {
            return Ok(());
        }
        let json = parse(event.data.as_bytes());
        if event.name == "error" {
            return Err(read_error(&json.unwrap_or_else(|_| Value::String(event.data.clone()))));
        }
        self.say(&filter.pass(&answer.take(&json?)?));
        Ok(())
    }

    fn say(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.deltas.say(piece);
        }
    }

    /// Returns the body, or an error if it is longer than `most` bytes.
    async fn bytes(&self, mut response: Response, most: usize) -> Result<Vec<u8>, InferError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next(&mut response).await? {
            if whole.len() + bytes.len() > most {
                return Err(self.too_large());
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// Returns the next bytes of the body; the server may be silent no longer than the idle timeout.
    async fn next(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl Deref<Target = [u8]> + Send>, InferError> {
        match tokio::time::timeout(self.settings.idle_timeout, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(self.lost(error)),
            Err(_elapsed) => {
                let why = format!(
                    "timed out: the server was silent for {:?} in the middle of its answer",
                    self.settings.idle_timeout
                );
                Err(passing("TimeoutError", why, None))
            }
        }
    }

    /// Returns the beginning of a body, as far as it can be read, for error texts. What may be the beginning of a
    /// secret is left out at the cut.
    async fn start_of(&self, mut response: Response) -> String {
        let (mut start, mut filter) = (Vec::new(), self.secrets.filter());
        while let Ok(Some(bytes)) = self.next(&mut response).await {
            start.extend_from_slice(&bytes);
            if start.len() >= INFER_ERROR_BYTES_MAX {
                start.truncate(INFER_ERROR_BYTES_MAX);
                return cut(&filter.pass(&String::from_utf8_lossy(&start)));
            }
        }
        let text = filter.pass(&String::from_utf8_lossy(&start));
        cut(&(text + &filter.rest()))
    }

    /// Converts an answer whose status is an error.
    async fn refused(&self, response: Response) -> InferError {
        let status = response.status().as_u16();
        let headers = response.headers();
        let wait = retry_after(|name| headers.get(name)?.to_str().ok());
        let wait = wait.map(|wait| spread_wait(wait, &self.request.call_id, self.request.attempt));
        let text = self.start_of(response).await;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        let error = json.as_ref().map(|json| json.get("error").unwrap_or(json));
        let said = error.and_then(message_of).unwrap_or_else(|| text.trim().to_owned());
        let mut message = format!("HTTP {status} from the model's server: {said}");
        let offered_tools = self.body.json.get("tools").is_some();
        if status == 400 && offered_tools && said.contains("tool") {
            message.push_str(" (if it takes no native tools, switch them off with `json_actions`)");
        }
        let code = error.and_then(|error| error.get("code")?.as_str());
        let error = InferError::from_status(status, message);
        match error.kind {
            // An exhausted quota does not recover in seconds.
            _ if code == Some("insufficient_quota") => failed("InsufficientQuota", error.message),
            InferErrorKind::Transient { .. } => passing(&error.type_name, error.message, wait),
            _ if status == 408 => passing("TimeoutError", error.message, wait),
            _ => error,
        }
    }

    /// Converts an error of the connection.
    fn lost(&self, error: reqwest::Error) -> InferError {
        let (connects, times_out, builds) = (error.is_connect(), error.is_timeout(), error.is_builder());
        // A URL may hold a password.
        let text = with_causes(&error.without_url());
        let to = &self.settings.shown_url;
        if builds {
            return failed("RequestError", format!("the request to {to} cannot be built: {text}"));
        }
        if times_out {
            return passing("TimeoutError", format!("timed out: {to}: {text}"), None);
        }
        let what = if connects { "no connection to" } else { "the connection broke:" };
        passing("ConnectionError", format!("{what} {to}: {text}"), None)
    }

    fn unreadable(&self, why: &Unreadable) -> InferError {
        match why {
            Unreadable::TooLong => self.too_large(),
            Unreadable::NotUtf8 => malformed("InvalidAnswer", "the answer is not UTF-8".to_owned()),
        }
    }

    fn too_large(&self) -> InferError {
        let most = self.settings.answer_bytes_max;
        malformed("AnswerTooLarge", format!("the answer is longer than {most} bytes; make it shorter"))
    }
}

fn is_end(event: &Event) -> bool {
    event.data.trim() == "[DONE]"
}

fn parse(bytes: &[u8]) -> Result<Value, InferError> {
    let invalid = |why: String| malformed("InvalidAnswer", format!("the server's answer is no JSON: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    JsonText::parse(text).map(|json| json.tree()).map_err(|error| invalid(error.to_string()))
}

fn message_of(error: &Value) -> Option<String> {
    let said = error.as_str().or_else(|| {
        ["message", "detail", "error"].into_iter().find_map(|key| error.get(key).and_then(Value::as_str))
    });
    said.filter(|said| !said.trim().is_empty()).map(str::to_owned)
}

/// Returns the media type without its parameters.
fn content_type(headers: &HeaderMap) -> String {
    let whole = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the error for a redirect. Redirects are not followed, as they could carry the key to another
/// server.
fn redirected(status: u16, headers: &HeaderMap) -> InferError {
    let target = headers.get(LOCATION).and_then(|target| target.to_str().ok());
    let target = target.and_then(|target| target.split(['?', '#']).next()).unwrap_or("an unnamed location");
    failed(
        "Redirected",
        format!("HTTP {status}: the server redirects to {target}; set the base URL to the final address"),
    )
}
