//! Requests of any form to an agent, and their answers as they came: for those who check what an agent answers to what no client
//! would send.

use http::{HeaderName, HeaderValue, Method};
use proto_events::json::JsonText;

use crate::a2a::client::error::A2aError;
use crate::a2a::client::options::Options;
use crate::a2a::client::tap::{Tap, shown_headers};
use crate::a2a::client::work;
use crate::client::exchange::Exchange;
use crate::client::transport;

/// A sender of requests of any form, within the bounds and with the credentials of a client's settings.
#[derive(Debug)]
pub struct Probe {
    http: transport::Client,
    headers: Vec<(HeaderName, HeaderValue)>,
    tap: Tap,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeAnswer {
    /// The status.
    pub status: u16,
    /// The headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl ProbeAnswer {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON, if it is some.
    pub fn json(&self) -> Option<JsonText> {
        JsonText::parse(std::str::from_utf8(&self.body).ok()?).ok()
    }
}

impl Probe {
    /// Returns a sender with these settings.
    ///
    /// # Errors
    /// [`A2aError::Transport`] if HTTP cannot be set up.
    pub fn new(options: &Options) -> Result<Self, A2aError> {
        let http = work::http(options)?.answer_max(options.answer_max);
        Ok(Self { http, headers: options.headers.clone(), tap: options.tap() })
    }

    /// Sends a request once, and returns its answer, whatever it is.
    ///
    /// # Errors
    /// [`A2aError`] if none came, or the request cannot be sent.
    pub async fn ask(
        &self,
        method: &str,
        url: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: Option<JsonText>,
    ) -> Result<ProbeAnswer, A2aError> {
        let wrong = || A2aError::Request("the method or a header cannot be sent".to_owned());
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong())?;
        let mut all = self.headers.clone();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            all.push((name, HeaderValue::from_str(value).map_err(|_| wrong())?));
        }
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let exchange = Exchange { method, url: url.to_owned(), query, headers: all, body };
        let answered = self.tap.exchange(&self.http, &exchange).await?;
        let (status, headers) = (answered.status.as_u16(), shown_headers(&answered.headers));
        Ok(ProbeAnswer { status, headers, body: answered.body })
    }
}
