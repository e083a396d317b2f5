//! The web inspector: pages that show a log, made on the server from the views of [`taskreel_log::views`]. A page is readable before
//! any script runs, has an address that can be sent, and changes nothing.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod audit_page;
pub(crate) mod block;
pub(crate) mod control;
pub(crate) mod decision_form;
pub(crate) mod draw;
pub(crate) mod escape;
pub(crate) mod event_filter;
pub(crate) mod frame;
pub(crate) mod live;
pub(crate) mod needs;
pub(crate) mod page_pipe;
pub(crate) mod page_request;
pub(crate) mod pages;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod style;
pub(crate) mod words;

use std::sync::Arc;

use http::request::Parts;
use http::{Method, StatusCode};
use taskreel::{BoxFuture, System};
use taskreel_log::api::EventReader;
use tokio::sync::Semaphore;

use crate::api::bounded_reads::read;
use crate::auth::caller::{Caller, Scope};
use crate::error::Problem;
use crate::handler::body::RequestBody;
use crate::handler::connection::{StopSignal, mount_deeper, mounted_at};
use crate::handler::message::{HttpHandler, Request, Response};
use crate::handler::mounts::with_path;
use crate::inspect::address::Links;
use crate::inspect::answer::{PageAnswer, asset};
use crate::inspect::control::{ControlBackend, SignedControl, caller_of};
use crate::inspect::event_filter::EventFilter;
use crate::inspect::frame::{Cx, theme_of};
use crate::inspect::needs::Needs;
use crate::inspect::page_request::{Page, Query};
use crate::inspect::source::InspectedLog;
use crate::limits::{FOLLOWERS_MAX, READS_MAX};

/// The web inspector of a log, for a place such as `/inspect`.
///
/// It reads and changes nothing, unless [`allow_control`](Self::allow_control) says who carries out decisions. A request whose
/// extensions hold a [`Caller`] needs the scope of reading, and that of control to decide. One without was checked by nobody: the host
/// that mounts the handler answers for it.
///
/// ```
/// # use std::sync::Arc;
/// use taskreel_http::{InspectedLog, Inspector, Server};
/// use taskreel_log::memory::MemoryStore;
///
/// # async fn run() -> Result<(), taskreel_http::ServeError> {
/// let log = InspectedLog::new(Arc::new(MemoryStore::new()), "a log in memory");
/// let serving = Server::new().mount("/inspect", Arc::new(Inspector::new(log))).start("127.0.0.1:0").await?;
/// println!("http://{}/inspect/", serving.address());
/// serving.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    log: Arc<InspectedLog>,
    needs: Arc<Needs>,
    turns: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    backend: Option<SignedControl>,
    /// The inspector of a log beside this one.
    beside: Option<Arc<Inspector>>,
}

/// The place of the pages of a log beside the one that is inspected.
const BESIDE: &str = "/with";

impl Inspector {
    /// Returns the inspector of a log.
    pub fn new(log: InspectedLog) -> Self {
        Self {
            log: Arc::new(log),
            needs: Arc::default(),
            turns: Arc::new(Semaphore::new(READS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            backend: None,
            beside: None,
        }
    }

    /// Puts another log beside this one: its pages stand below `with/`, and its runs can be compared with this log's. Nothing
    /// in it can be decided.
    #[must_use]
    pub fn beside(mut self, log: InspectedLog) -> Self {
        self.beside = Some(Arc::new(Self::new(log)));
        self
    }

    /// Lets callers decide on the pages: approve and deny, answer, settle calls of unknown outcome, cancel. The control backend carries the
    /// decisions out, and checks them as any other caller's; a [`System`] is one.
    ///
    /// A decision is sent by a form of a page that has shown all of what it decides, to the same origin, with a token that this
    /// inspector made for this caller.
    #[must_use]
    pub fn allow_control(mut self, backend: Arc<dyn ControlBackend>) -> Self {
        self.backend = Some(SignedControl::new(backend));
        self
    }

    /// Returns the inspector of a running system's log.
    pub fn from_system(system: &System) -> Self {
        Self::new(InspectedLog::of(system))
    }

    async fn respond(self, mut parts: Parts, body: RequestBody) -> Response {
        let rest = parts.uri.path().strip_prefix(BESIDE).filter(|rest| rest.starts_with('/'));
        if let (Some(rest), Some(beside)) = (rest.map(str::to_owned), self.beside.clone()) {
            parts.uri = with_path(&parts.uri, &rest);
            mount_deeper(&mut parts.extensions, BESIDE);
            return Box::pin(beside.as_ref().clone().respond(parts, body)).await;
        }
        let links = Links::below(mounted_at(&parts.extensions));
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str());
        let cx = Cx::new(links, here, theme_of(&parts.headers), Arc::clone(&self.log));
        let cx = cx.signed(self.backend.as_ref().and_then(|backend| backend.signer(&caller_of(&parts))));
        let cx = match &self.beside {
            Some(beside) => cx.beside(BESIDE, Arc::clone(&beside.log)),
            None => cx,
        };
        let answered = match self.answered(&parts, body, &cx).await {
            Ok(answered) => answered,
            Err(problem) => pages::problem::page(&cx, &problem),
        };
        answered.into_response(&parts.method, self.backend.is_some())
    }

    async fn answered(&self, parts: &Parts, body: RequestBody, cx: &Cx) -> Result<PageAnswer, Problem> {
        if let (&Method::POST, Some(backend)) = (&parts.method, &self.backend)
            && Page::from_path(parts.uri.path())? == Page::Decide
        {
            return decision_form::decided(cx, backend, parts, body).await;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let what = format!("these pages are read with GET, not {}", parts.method);
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", what));
        }
        let page = Page::from_path(parts.uri.path())?;
        let query = Query::from_query(parts.uri.query())?;
        if let Page::Asset(name) = &page {
            return asset(name, &parts.headers);
        }
        let may_read = parts.extensions.get::<Caller>().is_none_or(|caller| caller.scopes.has(Scope::Read));
        if !may_read {
            return Err(Problem::forbidden("the caller does not have the scope of reading"));
        }
        match page {
            Page::Theme => Ok(frame::choose_theme(cx, &query)),
            Page::LiveEvents => {
                let stopping = parts.extensions.get::<StopSignal>().cloned();
                let asked = (live::place(&parts.headers, &query)?, EventFilter::from_query(&query)?);
                let log = Arc::clone(self.log.reader());
                live::events(log, asked, (&self.turns, &self.followers), stopping).await
            }
            Page::Runs => {
                let needs = self.needs.now(&self.log, &self.turns).await;
                self.read(cx, move |cx, log| pages::runs::page(cx, log, &query, needs.as_ref())).await
            }
            Page::Inbox => {
                let needs = self.needs.now(&self.log, &self.turns).await;
                self.read(cx, move |cx, _| pages::inbox::page(cx, &query, needs.as_ref())).await
            }
            Page::Decide => Err(Problem::not_found("decisions are sent here by the forms of the inbox")),
            Page::Audit => audit_page::audit(cx, &query, &self.turns).await,
            Page::Report(stream) => report::ask::report(&self.log, stream, &query, &self.turns).await,
            page => self.read(cx, move |cx, log| pages::page(&page, cx, log, &query)).await,
        }
    }

    async fn read(
        &self,
        cx: &Cx,
        page: impl FnOnce(&Cx, &dyn EventReader) -> Result<PageAnswer, Problem> + Send + 'static,
    ) -> Result<PageAnswer, Problem> {
        let cx = cx.clone();
        read(&self.turns, Arc::clone(self.log.reader()), move |log| {
            let cx = cx.at_head(log);
            page(&cx, log)
        })
        .await
    }
}

impl HttpHandler for Inspector {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (parts, body) = request.into_parts();
        Box::pin(self.clone().respond(parts, body))
    }
}
