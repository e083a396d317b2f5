//! An HTTP exchange: the request, the answer, and all errors.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use proto_events::json::{JsonError, JsonText, JsonValue as Value};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};

use crate::grammar::decode::cut;
use crate::http_client::with_causes;
use crate::lenient_json::repaired_piece;
use crate::limits::{INFER_ERROR_BYTES_MAX, RETRY_AFTER_MAX};
use crate::models::backend::{InferError, InferErrorKind, InferReply, InferRequest, spread_wait};
use crate::models::providers::common::{failed, malformed, passing, retry_after};
use crate::models::providers::openai::answer::{PartialAnswer, read_error};
use crate::models::providers::openai::body::Body;
use crate::models::providers::openai::settings::OpenAiSettings;
use crate::models::providers::openai::sse::{Decoder, Event, Unreadable};
use crate::models::providers::openai::waits::{in_words, is_exhausted, wait_in, wait_in_words};
use crate::models::providers::secrets::{SecretFilter, SecretTexts};

/// The most bytes of a stream for each byte of its answer: each token comes in an event of its own, with
/// comments in between.
const STREAM_BYTES_PER_BYTE: usize = 64;

/// The longest wait for the cost of an answer behind its end.
const COST_WAIT: Duration = Duration::from_secs(3);

/// The longest wait for the end of a stream behind an answer and its cost.
const END_WAIT: Duration = Duration::from_millis(250);

/// Sends the request and reads its answer. Dropping the future ends the exchange.
pub(crate) async fn exchange(
    client: &Client,
    settings: &OpenAiSettings,
    url: Url,
    key: Option<Arc<str>>,
    request: InferRequest,
) -> Result<InferReply, InferError> {
    let body = Body::new(settings, &request);
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
    settings: &'a OpenAiSettings,
    secrets: &'a SecretTexts,
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
        let (start, response) = self.beginning(response).await?;
        let answer = match form_of(&start, &kind) {
            Some(AnswerForm::Stream) => self.stream(start, response).await?,
            Some(AnswerForm::Document) => self.read_answer(start, response).await?,
            None => {
                let start = self.start_of(start, response).await;
                let why = format!(
                    "the server answered {kind} and not JSON; check the base URL. The body begins: {}",
                    start.trim()
                );
                return Err(failed("WrongContentType", why));
            }
        };
        answer.reply(&self.body.names, &self.settings.model)
    }

    /// Returns the beginning of a body, up to its first character that is not a space, and what follows.
    async fn beginning(&self, mut response: Response) -> Result<(Vec<u8>, Response), InferError> {
        let mut start = Vec::new();
        while first_of(&start).is_none() && start.len() < self.settings.answer_bytes_max {
            match self.next(&mut response, self.settings.idle_timeout).await? {
                Some(bytes) => start.extend_from_slice(&bytes),
                None => break,
            }
        }
        Ok((start, response))
    }

    async fn read_answer(&self, start: Vec<u8>, response: Response) -> Result<PartialAnswer, InferError> {
        let bytes = self.bytes(start, response, self.settings.answer_bytes_max).await?;
        let json = parse(&bytes)?;
        let mut answer = PartialAnswer::default();
        let said = answer.accept_json(&json).map_err(|error| self.waiting(error, &json))?;
        self.request.deltas.say(&self.secrets.redact(said));
        Ok(answer)
    }

    /// Reads a stream and passes its pieces on.
    async fn stream(&self, start: Vec<u8>, response: Response) -> Result<PartialAnswer, InferError> {
        let mut filter = self.secrets.filter();
        let mut answer = PartialAnswer::default();
        let read = self.read_stream(start, response, &mut answer, &mut filter).await;
        read.map_err(|error| answer.before(error))?;
        self.emit(&filter.flush());
        Ok(answer)
    }

    async fn read_stream(
        &self,
        start: Vec<u8>,
        mut response: Response,
        answer: &mut PartialAnswer,
        filter: &mut SecretFilter<'_>,
    ) -> Result<(), InferError> {
        let most = self.settings.answer_bytes_max;
        let mut decoder = Decoder::new(most);
        let mut bytes_in = start.len();
        if self.take_bytes(&start, &mut decoder, answer, filter)? {
            return Ok(());
        }
        loop {
            let bytes = match self.next(&mut response, self.patience(answer)).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // The answer is whole: nobody waits for what a server leaves out, or loses, behind its end.
                Err(_) if answer.is_finished() => return Ok(()),
                Err(error) => return Err(error),
            };
            bytes_in = bytes_in.saturating_add(bytes.len());
            if self.take_bytes(&bytes, &mut decoder, answer, filter)? {
                return Ok(());
            }
            if answer.len() > most || bytes_in > most.saturating_mul(STREAM_BYTES_PER_BYTE) {
                return Err(self.too_large());
            }
        }
        let mut ended = answer.is_finished();
        if let Some(event) = decoder.flush() {
            ended |= is_end(&event);
            // By the specification it is not an event, since it may be cut: it counts where it is whole.
            if !ended && parse(event.data.as_bytes()).is_ok() {
                self.accept_event(answer, &event, filter)?;
                ended = answer.is_finished();
            }
        }
        if ended {
            return Ok(());
        }
        let why = "the connection ended in the middle of the answer";
        Err(passing("ConnectionError", why.to_owned(), None))
    }

    /// Reads the next bytes of a stream; returns whether it has ended.
    fn take_bytes(
        &self,
        bytes: &[u8],
        decoder: &mut Decoder,
        answer: &mut PartialAnswer,
        filter: &mut SecretFilter<'_>,
    ) -> Result<bool, InferError> {
        for event in decoder.feed(bytes).map_err(|why| self.unreadable(&why))? {
            if is_end(&event) {
                return Ok(true);
            }
            self.accept_event(answer, &event, filter)?;
        }
        Ok(false)
    }

    /// Returns how long the server may be silent: behind the end of an answer only its cost is waited for.
    fn patience(&self, answer: &PartialAnswer) -> Duration {
        let idle = self.settings.idle_timeout;
        match (answer.is_finished(), answer.has_usage()) {
            (false, _) => idle,
            (true, false) => idle.min(COST_WAIT),
            (true, true) => idle.min(END_WAIT),
        }
    }

    fn accept_event(
        &self,
        answer: &mut PartialAnswer,
        event: &Event,
        filter: &mut SecretFilter<'_>,
    ) -> Result<(), InferError> {
        if event.data.trim().is_empty() {
            return Ok(());
        }
        let json = parse(event.data.as_bytes());
        if event.name == "error" {
            let json = json.unwrap_or_else(|_| Value::String(event.data.clone()));
            return Err(self.waiting(read_error(&json), &json));
        }
        let json = json?;
        let said = answer.accept_json(&json).map_err(|error| self.waiting(error, &json))?;
        self.emit(&filter.pass(&said));
        Ok(())
    }

    fn emit(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.deltas.say(piece);
        }
    }

    /// Returns the body, or an error if it is longer than `most` bytes.
    async fn bytes(
        &self,
        mut whole: Vec<u8>,
        mut response: Response,
        most: usize,
    ) -> Result<Vec<u8>, InferError> {
        loop {
            let bytes = match self.next(&mut response, self.settings.idle_timeout).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // A document that is whole is an answer, however its connection ends.
                Err(_) if is_whole(&whole) => break,
                Err(error) => return Err(error),
            };
            if whole.len() + bytes.len() > most {
                return Err(self.too_large());
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// Returns the next bytes of the body; the server may be silent no longer than `patience`.
    async fn next(
        &self,
        response: &mut Response,
        patience: Duration,
    ) -> Result<Option<impl Deref<Target = [u8]> + Send>, InferError> {
        match tokio::time::timeout(patience, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(self.lost(error)),
            Err(_elapsed) => {
                let why =
                    format!("timed out: the server was silent for {patience:?} in the middle of its answer");
                Err(passing("TimeoutError", why, None))
            }
        }
    }

    /// Returns the beginning of a body, as far as it can be read, for error texts. What may be the beginning of a
    /// secret is left out at the cut.
    async fn start_of(&self, mut start: Vec<u8>, mut response: Response) -> String {
        let mut filter = self.secrets.filter();
        while let Ok(Some(bytes)) = self.next(&mut response, self.settings.idle_timeout).await {
            start.extend_from_slice(&bytes);
            if start.len() >= INFER_ERROR_BYTES_MAX {
                start.truncate(INFER_ERROR_BYTES_MAX);
                return cut(&filter.pass(&String::from_utf8_lossy(&start)));
            }
        }
        let text = filter.pass(&String::from_utf8_lossy(&start));
        cut(&(text + &filter.flush()))
    }

    /// Converts an answer whose status is an error.
    async fn refused(&self, response: Response) -> InferError {
        let status = response.status().as_u16();
        let headers = response.headers();
        let header_wait = retry_after(|name| headers.get(name)?.to_str().ok());
        let text = self.start_of(Vec::new(), response).await;
        let json = JsonText::parse(&text).ok().map(|json| json.tree());
        // Some servers send a list with one error in it.
        let json = match &json {
            Some(Value::Array(list)) => list.first().cloned(),
            _ => json,
        };
        let error = json.as_ref().map(|json| json.get("error").unwrap_or(json));
        let said = error.and_then(message_of).unwrap_or_else(|| text.trim().to_owned());
        let hint = self.hint(status, &said);
        let error =
            InferError::from_status(status, format!("HTTP {status} from the model's server: {said}{hint}"));
        match error.kind {
            InferErrorKind::Transient { .. } => {
                self.after_wait(error, header_wait, json.as_ref().unwrap_or(&Value::Null), &said)
            }
            _ if is_exhausted(json.as_ref().unwrap_or(&Value::Null)) => {
                failed("QuotaExhausted", error.message)
            }
            _ => error,
        }
    }

    /// Adds to an error of a status of 200 what its body says of a wait.
    fn waiting(&self, error: InferError, json: &Value) -> InferError {
        if !error.is_transient() {
            return error;
        }
        let said = error.message.clone();
        self.after_wait(error, None, json, &said)
    }

    /// Returns a passing error with the wait that the server asks for. A quota that is exhausted for longer than any wait is a
    /// failure that says until when.
    fn after_wait(
        &self,
        error: InferError,
        header: Option<Duration>,
        json: &Value,
        said: &str,
    ) -> InferError {
        let wait = header.or_else(|| wait_in(json)).or_else(|| wait_in_words(said));
        if is_exhausted(json) || wait.is_some_and(|wait| wait > RETRY_AFTER_MAX) {
            let until = wait
                .map_or_else(String::new, |wait| format!(" (the server says: again in {})", in_words(wait)));
            return failed("QuotaExhausted", error.message + &until);
        }
        let name =
            if error.message.starts_with("HTTP 408") { "TimeoutError" } else { error.type_name.as_str() };
        let wait = wait.map(|wait| spread_wait(wait, &self.request.call_id, self.request.attempt));
        passing(name, error.message, wait)
    }

    /// Returns which setting helps against a refusal, if one does.
    fn hint(&self, status: u16, said: &str) -> &'static str {
        let said = said.to_ascii_lowercase();
        let has = |field: &str| self.body.json.get(field).is_some();
        let refuses = [
            "not support",
            "unsupported",
            "unknown",
            "unrecognized",
            "not permitted",
            "not allowed",
            "cannot",
        ];
        let is_refusal = refuses.iter().any(|words| said.contains(words));
        match status {
            400 | 404 | 422 if has("stream_options") && said.contains("stream_options") => {
                " (leave the field out with `stream_options(false)`)"
            }
            400 | 422 if has("response_format") && said.contains("response_format") => {
                " (leave the field out beside tools with `format_with_tools(false)`, or use no output schema)"
            }
            400 | 404 | 422 if has("tools") && is_refusal && said.contains("tool") => {
                " (if it takes no native tools, switch them off with `json_actions`)"
            }
            _ => "",
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

/// The form of a body.
enum AnswerForm {
    Stream,
    Document,
}

/// Returns the form of a body by its beginning, else by its type: gateways send streams under any type.
fn form_of(start: &[u8], kind: &str) -> Option<AnswerForm> {
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let fields = ["data:", "event:", "id:", "retry:", ":"];
    if fields.iter().any(|field| text.starts_with(field)) {
        return Some(AnswerForm::Stream);
    }
    if text.starts_with(['{', '[']) {
        return Some(AnswerForm::Document);
    }
    match kind {
        "text/event-stream" => Some(AnswerForm::Stream),
        "" | "application/json" => Some(AnswerForm::Document),
        other if other.ends_with("+json") => Some(AnswerForm::Document),
        _ => None,
    }
}

/// Returns the first byte that is neither a space nor a byte order mark.
fn first_of(bytes: &[u8]) -> Option<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

fn is_whole(bytes: &[u8]) -> bool {
    !bytes.is_empty() && parse(bytes).is_ok()
}

/// Reads JSON of a server. Halves of surrogate pairs and numbers that are not finite cost no answer that was paid.
fn parse(bytes: &[u8]) -> Result<Value, InferError> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let json = JsonText::parse(text).or_else(|_| JsonText::parse(&repaired_piece(text)));
    let invalid = |error: JsonError| {
        let why = format!("the server's answer is no JSON: {error}");
        passing("InvalidAnswer", why, None)
    };
    json.map(|json| json.tree()).map_err(invalid)
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
