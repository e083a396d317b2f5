//! The web inspector: pages that show a log, made on the server from the views of [`taskreel_log::views`]. A page is readable before
//! any script runs, has an address that can be sent, and changes nothing.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod block;
pub(crate) mod draw;
pub(crate) mod escape;
pub(crate) mod frame;
pub(crate) mod live;
pub(crate) mod needs;
pub(crate) mod pages;
pub(crate) mod source;
pub(crate) mod words;

use std::sync::Arc;

use http::request::Parts;
use http::{Method, StatusCode};
use taskreel::{BoxFuture, System};
use taskreel_log::api::EventReader;
use tokio::sync::Semaphore;

use crate::api::reading::read;
use crate::auth::caller::{Caller, Scope};
use crate::error::Problem;
use crate::face::connection::{Stopping, mounted_at};
use crate::face::message::{Face, Request, Response};
use crate::inspect::address::Links;
use crate::inspect::answer::{Answered, asset};
use crate::inspect::asked::{Page, Query};
use crate::inspect::frame::{Cx, theme_of};
use crate::inspect::needs::Needs;
use crate::inspect::source::InspectedLog;
use crate::limits::{FOLLOWERS_MAX, READS_MAX};

/// The web inspector of a log, for a place such as `/inspect`.
///
/// It reads and changes nothing. A request whose extensions hold a [`Caller`] needs the scope of reading. One without was checked by
/// nobody: the host that mounts the face answers for it.
///
/// ```
/// # use std::sync::Arc;
/// use taskreel_http::{InspectedLog, Inspector, Server};
/// use taskreel_log::memory::MemoryStore;
///
/// # async fn run() -> Result<(), taskreel_http::ServeError> {
/// let log = InspectedLog::new(Arc::new(MemoryStore::new()), "a log in memory");
/// let serving = Server::new().face("/inspect", Arc::new(Inspector::new(log))).start("127.0.0.1:0").await?;
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
}

impl Inspector {
    /// Returns the inspector of a log.
    pub fn new(log: InspectedLog) -> Self {
        Self {
            log: Arc::new(log),
            needs: Arc::default(),
            turns: Arc::new(Semaphore::new(READS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
        }
    }

    /// Returns the inspector of a running system's log.
    pub fn of(system: &System) -> Self {
        Self::new(InspectedLog::of(system))
    }

    async fn respond(self, parts: Parts) -> Response {
        let links = Links { base: mounted_at(&parts.extensions).to_owned() };
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str());
        let cx = Cx::new(links, here, theme_of(&parts.headers), Arc::clone(&self.log));
        let answered = match self.answered(&parts, &cx).await {
            Ok(answered) => answered,
            Err(problem) => pages::problem::page(&cx, &problem),
        };
        answered.into_response(&parts.method)
    }

    async fn answered(&self, parts: &Parts, cx: &Cx) -> Result<Answered, Problem> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let what = format!("these pages are read with GET, not {}", parts.method);
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", what));
        }
        let page = Page::of(parts.uri.path())?;
        let query = Query::of(parts.uri.query())?;
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
                let stopping = parts.extensions.get::<Stopping>().cloned();
                let from = live::place(&parts.headers, &query)?;
                live::events(Arc::clone(self.log.reader()), from, (&self.turns, &self.followers), stopping)
                    .await
            }
            Page::Runs => {
                let needs = self.needs.now(&self.log, &self.turns).await;
                self.read(cx, move |cx, log| pages::runs::page(cx, log, &query, needs.as_ref())).await
            }
            page => self.read(cx, move |cx, log| pages::page(&page, cx, log, &query)).await,
        }
    }

    async fn read(
        &self,
        cx: &Cx,
        page: impl FnOnce(&Cx, &dyn EventReader) -> Result<Answered, Problem> + Send + 'static,
    ) -> Result<Answered, Problem> {
        let cx = cx.clone();
        read(&self.turns, Arc::clone(self.log.reader()), move |log| {
            let cx = cx.at_head(log);
            page(&cx, log)
        })
        .await
    }
}

impl Face for Inspector {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (parts, _) = request.into_parts();
        Box::pin(self.clone().respond(parts))
    }
}
