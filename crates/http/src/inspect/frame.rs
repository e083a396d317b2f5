//! The frame of every page: the navigation, the log's name and use, the choice of colours.

use std::sync::Arc;

use http::HeaderMap;
use http::header::COOKIE;
use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::LogUse;

use crate::inspect::address::Links;
use crate::inspect::answer::PageAnswer;
use crate::inspect::control::Signer;
use crate::inspect::page_request::Query;
use crate::inspect::source::InspectedLog;
use crate::inspect::words::{At, count};

/// The cookie that keeps the choice of colours.
const THEME: &str = "taskreel-theme";

/// The themes; the first one is that of the system.
const THEMES: [&str; 3] = ["auto", "light", "dark"];

/// The circumstances of a page.
#[derive(Debug, Clone)]
pub(crate) struct Cx {
    /// The addresses.
    pub(crate) links: Links,
    /// The path and query of the page, below the place of the inspector.
    pub(crate) here: String,
    /// The theme.
    pub(crate) theme: &'static str,
    /// The log.
    pub(crate) log: Arc<InspectedLog>,
    /// The end of the log, where it could be read.
    pub(crate) head: Option<Position>,
    /// The time of the page.
    pub(crate) now: Timestamp,
    /// The signer of forms, where the caller may decide.
    pub(crate) signer: Option<Signer>,
    /// The log beside this one, and the addresses of its pages.
    pub(crate) other: Option<(Arc<InspectedLog>, Links)>,
}

impl Cx {
    pub(crate) fn new(links: Links, here: &str, theme: &'static str, log: Arc<InspectedLog>) -> Self {
        Self {
            links,
            here: here.to_owned(),
            theme,
            log,
            head: None,
            now: SystemClock.now(),
            signer: None,
            other: None,
        }
    }

    /// Returns the circumstances with the end of the log.
    pub(crate) fn at_head(mut self, log: &dyn EventReader) -> Self {
        self.head = log.head().ok();
        self
    }

    /// Returns the circumstances of a caller who may decide, if there is a signer.
    pub(crate) fn signed(self, signer: Option<Signer>) -> Self {
        Self { signer, ..self }
    }

    /// Returns the circumstances with another log beside this one, whose pages stand below the pages of this one.
    pub(crate) fn beside(mut self, place: &str, log: Arc<InspectedLog>) -> Self {
        self.other = Some((log, Links::below(format!("{}{place}", self.links.base))));
        self
    }

    /// Returns the circumstances of a page of the log beside this one.
    pub(crate) fn of_other(&self) -> Option<Self> {
        let (log, links) = self.other.clone()?;
        Some(Self { log, links, head: None, signer: None, other: None, ..self.clone() })
    }

    /// Returns a moment in words.
    pub(crate) fn at(&self, at: Timestamp) -> At {
        At::new(at, self.now)
    }

    /// Returns the address of the payload of an event, whole.
    pub(crate) fn whole(&self, stream: &StreamId, version: Version) -> String {
        if self.links.is_report() {
            return String::new();
        }
        format!("{}/body", self.links.raw(stream, version))
    }

    /// Returns the frame of a page.
    pub(crate) fn frame(&self, title: impl Into<String>, nav: &'static str) -> PageFrame {
        let (use_word, use_class) = match self.log.use_of() {
            LogUse::Open => ("live", "good"),
            LogUse::Closed => ("stopped", "quiet"),
            _ => ("export", "quiet"),
        };
        let themes = THEMES.into_iter().map(|theme| {
            let to = self.links.asked("theme", &[("to", theme), ("back", &self.here)]);
            (theme, to, theme == self.theme)
        });
        let pages = [
            ("", "Runs"),
            ("inbox", "Inbox"),
            ("sessions", "Sessions"),
            ("live", "Live"),
            ("tools", "Tools and models"),
            ("audit", "Audit"),
        ];
        let beside = self.other.iter().map(|(_, links)| (links.page(""), "The other log", false));
        let nav = pages.map(|(path, name)| (self.links.page(path), name, name == nav));
        PageFrame {
            title: title.into(),
            theme: self.theme,
            base: self.links.base.clone(),
            nav: nav.into_iter().chain(beside).collect(),
            log: self.log.name().to_owned(),
            note: self.log.banner().map(str::to_owned),
            use_word,
            use_class,
            head: self.head.map(|head| count(head.0)),
            themes: themes.collect(),
            made_at: self.at(self.now).short,
            is_read_only: self.signer.is_none(),
        }
    }
}

/// The frame of a page.
#[derive(Debug)]
pub(crate) struct PageFrame {
    pub(crate) title: String,
    pub(crate) theme: &'static str,
    pub(crate) base: String,
    pub(crate) nav: Vec<(String, &'static str, bool)>,
    pub(crate) log: String,
    pub(crate) note: Option<String>,
    pub(crate) use_word: &'static str,
    pub(crate) use_class: &'static str,
    pub(crate) head: Option<String>,
    pub(crate) themes: Vec<(&'static str, String, bool)>,
    pub(crate) made_at: String,
    pub(crate) is_read_only: bool,
}

/// Returns the theme that a request's cookie names.
pub(crate) fn theme_of(headers: &HeaderMap) -> &'static str {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookie| cookie.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let chosen = pairs.find(|(name, _)| *name == THEME).map_or("", |(_, value)| value);
    THEMES.into_iter().find(|theme| *theme == chosen).unwrap_or("auto")
}

/// Keeps a choice of colours, and leads back to the page where it was made.
pub(crate) fn choose_theme(cx: &Cx, query: &Query) -> PageAnswer {
    let chosen = query.text("to").unwrap_or_default();
    let chosen = THEMES.into_iter().find(|theme| *theme == chosen).unwrap_or("auto");
    // Only a page of ours: what begins with two slashes names another server.
    let back = query.text("back").filter(|back| back.starts_with('/') && !back.starts_with("//"));
    let back = back.filter(|back| back.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'));
    let path = if cx.links.base.is_empty() { "/" } else { &cx.links.base };
    let cookie = format!("{THEME}={chosen}; Path={path}; Max-Age=31536000; SameSite=Strict; HttpOnly");
    let base = &cx.links.base;
    PageAnswer::Other(format!("{base}{}", back.unwrap_or("/")), Some(cookie))
}
