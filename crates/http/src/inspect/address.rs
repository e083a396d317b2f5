//! The addresses of the pages: each view has one that can be sent.

use std::collections::HashMap;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proto_events::id::{Category, StreamId, Version};

/// The characters that stand in an address as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a text as it stands in a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Returns a text as a piece of a path. A browser takes out pieces of dots, escaped ones too, so a mark stands before them.
fn piece(text: &str) -> String {
    let mark = if text.starts_with(['.', '~']) { "~" } else { "" };
    format!("{mark}{}", encoded(text))
}

/// Returns the text of a piece of a path.
pub(crate) fn of_piece(piece: &str) -> &str {
    piece.strip_prefix('~').unwrap_or(piece)
}

/// The addresses below the place where the inspector is mounted; in a report, the places inside of it.
/// Returns the address of an event in the pages that are mounted at `base`, such as `http://127.0.0.1:8080/inspect`.
pub fn inspector_address(base: &str, stream: &StreamId, version: Version) -> String {
    Links { base: base.trim_end_matches('/').to_owned(), ..Links::default() }.event(stream, version)
}

/// The addresses below the place where the inspector is mounted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// The place, without a slash at its end.
    pub(crate) base: String,
    /// The streams of a report, each with the beginning of its anchors. What is not in the report has no address.
    report: Option<Arc<HashMap<StreamId, String>>>,
}

impl Links {
    /// Returns the addresses below a place.
    pub(crate) fn below(base: impl Into<String>) -> Self {
        Self { base: base.into(), report: None }
    }

    /// Returns the addresses inside of a report.
    pub(crate) fn inside(streams: HashMap<StreamId, String>) -> Self {
        Self { base: String::new(), report: Some(Arc::new(streams)) }
    }

    /// Whether these are the addresses inside of a report.
    pub(crate) const fn is_report(&self) -> bool {
        self.report.is_some()
    }

    /// Returns the address of a page of the navigation.
    pub(crate) fn page(&self, path: &str) -> String {
        self.asked(path, &[])
    }

    /// Returns the address of a page with a query.
    pub(crate) fn asked(&self, path: &str, query: &[(&str, &str)]) -> String {
        if self.is_report() {
            return String::new();
        }
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        format!("{}/{path}{mark}{}", self.base, pairs.join("&"))
    }

    /// Returns the beginning of the anchors of a stream of the report.
    pub(crate) fn anchor(&self, stream: &StreamId) -> Option<&str> {
        self.report.as_ref().and_then(|streams| streams.get(stream)).map(String::as_str)
    }

    /// Returns the address of a stream: a task's or a session's page, else its first event.
    pub(crate) fn stream(&self, stream: &StreamId) -> String {
        if self.is_report() {
            return self.anchor(stream).map_or_else(String::new, |anchor| format!("#{anchor}"));
        }
        let kind = match stream.category() {
            Some(Category::Task) => "t",
            Some(Category::Session) => "s",
            _ => return self.raw(stream, Version(1)),
        };
        self.named(kind, stream)
    }

    fn named(&self, kind: &str, stream: &StreamId) -> String {
        format!("{}/{kind}/{}/{}", self.base, piece(&stream.agent()), piece(&stream.id()))
    }

    /// Returns the address of an event on its stream's page.
    pub(crate) fn event(&self, stream: &StreamId, version: Version) -> String {
        match stream.category() {
            Some(Category::Task) if !self.is_report() => format!("{}?at={version}", self.stream(stream)),
            _ => self.raw(stream, version),
        }
    }

    /// Returns the address of a call on its task's page.
    pub(crate) fn call(&self, stream: &StreamId, call: &str) -> String {
        let page = self.stream(stream);
        if self.is_report() { page } else { format!("{page}?call={}", encoded(call)) }
    }

    /// Returns the address of an event as it is stored.
    pub(crate) fn raw(&self, stream: &StreamId, version: Version) -> String {
        if self.is_report() {
            return self.anchor(stream).map_or_else(String::new, |anchor| format!("#{anchor}-v{version}"));
        }
        format!("{}/e/{}/{version}", self.base, piece(stream.as_str()))
    }

    /// Returns the address of the report of a task or a session.
    pub(crate) fn report(&self, stream: &StreamId) -> String {
        let kind = if stream.category() == Some(Category::Session) { "s" } else { "t" };
        self.named(&format!("report/{kind}"), stream)
    }

    /// Returns the address of an artifact's content.
    pub(crate) fn artifact(&self, task: &StreamId, id: &str) -> String {
        if self.is_report() {
            return String::new();
        }
        format!("{}/{}", self.named("a", task), piece(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_comes_back_from_its_address() {
        let links = Links::below("/inspect");
        for id in ["a", "a b/c?d#e%", "..", ".", "~x", "<b>\"'&", "\u{202e}ü"] {
            let stream = StreamId::task("agent one", id).unwrap();
            let address = links.stream(&stream);
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
            assert!(address.bytes().all(allowed), "{address}");
            let read = crate::handler::path::segments(&address).unwrap();
            assert_eq!([of_piece(&read[2]), of_piece(&read[3])], ["agent one", id]);
            assert!(!address.split('/').any(|piece| matches!(piece, "." | "..")), "{address}");
        }
    }
}
