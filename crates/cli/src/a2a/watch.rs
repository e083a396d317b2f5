//! The watching of the exchanges of a command: `--debug` writes them to stderr, `--record` into a log. No credential is shown
//! by either.

use std::sync::Arc;
use std::time::Instant;

use taskreel::BoxFuture;
use taskreel_http::a2a::{Moment, Observer};

use crate::a2a::credentials::redactor;
use crate::a2a::record::Recorder;
use crate::a2a::redact::Redactor;
use crate::a2a::settings::Settings;
use crate::print::plain::without_control;
use crate::print::screen::note;

/// The most characters of a body that are written to stderr.
const SHOWN_MAX: usize = 100_000;

/// The observer of a command's exchanges.
#[derive(Debug)]
pub(crate) struct ExchangeObserver {
    debugs: bool,
    recorder: Option<Arc<Recorder>>,
    redactor: Redactor,
    began: Instant,
}

impl ExchangeObserver {
    /// Returns the observer; `None` if nothing is to be observed.
    pub(crate) fn over(settings: &Settings, recorder: Option<Arc<Recorder>>) -> Option<Arc<dyn Observer>> {
        let debugs = settings.flag("debug");
        if !debugs && recorder.is_none() {
            return None;
        }
        let (redactor, began) = (redactor(settings), Instant::now());
        Some(Arc::new(Self { debugs, recorder, redactor, began }))
    }

    fn write(&self, exchange: u64, moment: &Moment<'_>) {
        let after = self.began.elapsed().as_millis();
        let say = |mark: &str, text: &str| {
            let text = self.redactor.clean(text);
            note(&format!("{after:>6} ms #{exchange} {mark} {}", without_control(&text)));
        };
        let fields = |mark: &str, headers: &[(String, String)]| {
            for (name, value) in headers {
                say(mark, &format!("{name}: {value}"));
            }
        };
        let body = |mark: &str, body: &str| {
            let shown: String = body.chars().take(SHOWN_MAX).collect();
            say(mark, &shown);
            if shown.len() < body.len() {
                say(mark, &format!("… {} bytes in all", body.len()));
            }
        };
        match moment {
            Moment::Request { method, url, headers, body: sent } => {
                say(">", &format!("{method} {url}"));
                fields(">", headers);
                if let Some(sent) = sent {
                    body(">", sent);
                }
            }
            Moment::Answer { status, headers, body: came } => {
                say("<", &format!("HTTP {status}"));
                fields("<", headers);
                match came {
                    Some(bytes) if !bytes.is_empty() => body("<", &String::from_utf8_lossy(bytes)),
                    _ => {}
                }
            }
            Moment::Event { id, data } => {
                if let Some(id) = id {
                    say("<", &format!("id: {id}"));
                }
                body("<", &format!("data: {data}"));
            }
            Moment::End { why } => say("=", why.unwrap_or("end")),
            _ => {}
        }
    }
}

impl Observer for ExchangeObserver {
    fn saw<'a>(&'a self, exchange: u64, moment: Moment<'a>) -> BoxFuture<'a, Result<(), String>> {
        if self.debugs {
            self.write(exchange, &moment);
        }
        Box::pin(async move {
            match &self.recorder {
                Some(recorder) => recorder.record(exchange, &moment, &self.redactor).await,
                None => Ok(()),
            }
        })
    }
}
