//! `--record`: each exchange is a task of a log of taskreel.
//!
//! The task's message is the request, and the call of the agent `recorder`, whose intent is on disk before the request is sent, is the
//! exchange itself. What comes is appended as it comes: the answer's head and body, and each event of a stream, as pieces of
//! artifacts. The call's outcome is the exchange's end. After a kill the log has what came before it; the next recording into
//! the same log ends what was open as failed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proto_events::id::Mint as _;
use proto_events::json::{JsonObject, JsonText};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Message, Part, Ports, PostedTask, System, TaskHandle};
use taskreel_http::a2a::Moment;
use tokio::sync::{mpsc, oneshot};

use crate::a2a::failure::Failure;
use crate::a2a::redact::Redactor;
use crate::args::run::LogArgs;
use crate::dirs;
use crate::print::problem::EXIT_HELD;

/// The agent whose tasks are exchanges.
const AGENT: &str = "recorder";

/// The bytes of a text from which it is kept in pieces, and the most bytes of a piece: far below what an event may have.
const PIECE: usize = 1024 * 1024;

/// The longest exchange.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The longest wait for another command that records into the same log.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// An addition to the task of an exchange.
enum Entry {
    /// A piece of an artifact.
    Piece { artifact: &'static str, part: Part, is_last: bool },
    /// The end.
    End(Option<String>),
}

/// An entry, and the way to say that it is on disk.
type Queued = (Entry, oneshot::Sender<Result<(), String>>);

/// The exchange's side of its task: told once the intent is on disk, and given what is to be appended.
struct Work {
    started: oneshot::Sender<()>,
    entries: mpsc::Receiver<Queued>,
}

/// The works that wait for their tasks to begin, by the ids of the tasks.
type Waiting = Arc<Mutex<HashMap<String, Work>>>;

/// An exchange that goes on.
#[derive(Debug, Clone)]
struct Open {
    entries: mpsc::Sender<Queued>,
    task: TaskHandle,
}

/// The log into which exchanges are recorded.
#[derive(Debug)]
pub(crate) struct Recorder {
    system: System,
    waiting: Waiting,
    open: Mutex<HashMap<u64, Open>>,
    invocation: String,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Recorder {
    /// Opens the log in a directory, or makes one. Another command that records there is waited for.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be opened.
    pub(crate) async fn open(dir: &Path) -> Result<Self, Failure> {
        let began = Instant::now();
        let store = loop {
            let dir = dir.to_owned();
            let opened =
                tokio::task::spawn_blocking(move || dirs::open_or_make(&dir, LogArgs::default())).await;
            match opened.map_err(|error| Failure::internal(error.to_string(), ""))? {
                Ok(store) => break store,
                Err(problem) if problem.code == EXIT_HELD && began.elapsed() < TURN_WITHIN => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(problem) => {
                    let message = format!("{}: {}", problem.what, problem.why);
                    return Err(Failure::internal(message, problem.hint));
                }
            }
        };
        let waiting = Waiting::default();
        let works = Arc::clone(&waiting);
        let handler = move |cx: HandlerContext, _: Message| {
            let work = works.lock().unwrap_or_else(PoisonError::into_inner).remove(cx.task_id());
            exchange(cx, work)
        };
        let policy = ToolPolicy::read_only().timeout(LONGEST);
        let builder =
            System::builder(dir).name(AGENT).log(Arc::new(store)).stateless().handler_with(handler, policy);
        let started = builder.start().await;
        let system = started
            .map_err(|error| Failure::internal(error.to_string(), "use another directory with --record"))?;
        let (open, invocation) = (Mutex::default(), Ports::default().uuid());
        Ok(Self { system, waiting, open, invocation })
    }

    /// Keeps a moment of an exchange. It is on disk once this returns.
    pub(crate) async fn record(
        &self,
        exchange: u64,
        moment: &Moment<'_>,
        redactor: &Redactor,
    ) -> Result<(), String> {
        match moment {
            Moment::Request { method, url, headers, body } => {
                let (url, body) = (redactor.clean(url), body.map(|body| redactor.clean(body)));
                self.record_request(exchange, method, &url, &cleaned(headers, redactor), body).await
            }
            Moment::Answer { status, headers, body } => {
                let mut head = JsonObject::new();
                head.set("status", JsonText::of_model(status));
                head.set("headers", fields(&cleaned(headers, redactor)));
                let body = body.map(|bytes| redactor.clean(&String::from_utf8_lossy(bytes)));
                let rest = with_body(&mut head, body.as_deref(), "answer-body");
                self.append(exchange, piece("answer", &head, true)).await?;
                self.record_text(exchange, "answer-body", rest.as_deref()).await
            }
            Moment::Event { id, data } => {
                let mut head = JsonObject::new();
                head.set("at", JsonText::string(&now()));
                if let Some(id) = id {
                    head.set("id", JsonText::string(id));
                }
                let data = redactor.clean(data);
                let rest = with_body(&mut head, Some(&data), "event-data");
                self.append(exchange, piece("events", &head, false)).await?;
                self.record_text(exchange, "event-data", rest.as_deref()).await
            }
            Moment::End { why } => self.record_end(exchange, why.map(|why| redactor.clean(why))).await,
            _ => Ok(()),
        }
    }

    async fn record_request(
        &self,
        exchange: u64,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Option<String>,
    ) -> Result<(), String> {
        let mut mint = Ports::default();
        let mut head = JsonObject::new();
        head.set("method", JsonText::string(method));
        head.set("url", JsonText::string(url));
        head.set("headers", fields(headers));
        let operation = body
            .as_deref()
            .and_then(|body| JsonText::parse(body).ok()?.read::<JsonObject>().ok()?.get("method")?.to_str());
        let title = [Some(method.to_owned()), Some(url.to_owned()), operation]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        let rest = with_body(&mut head, body.as_deref(), "request-body");
        let parts = vec![Part::text(title), Part::new("json", head.to_text())];
        let message = Message::new("user", parts, &mut mint);
        let mut task = PostedTask::new(message, &mut mint);
        task.metadata.set("invocation", JsonText::string(&self.invocation));
        let (entries, receiver) = mpsc::channel(1);
        let (started, begun) = oneshot::channel();
        let work = Work { started, entries: receiver };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(task.id.clone(), work);
        let task = self.system.submit(task).await.map_err(|error| error.to_string())?;
        begun.await.map_err(|_| "the task of the exchange did not begin".to_owned())?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(exchange, Open { entries, task });
        self.record_text(exchange, "request-body", rest.as_deref()).await
    }

    /// Appends a long text in pieces.
    async fn record_text(
        &self,
        exchange: u64,
        artifact: &'static str,
        text: Option<&str>,
    ) -> Result<(), String> {
        let mut rest = text.unwrap_or_default();
        while !rest.is_empty() {
            let mut end = rest.len().min(PIECE);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (one, left) = rest.split_at(end);
            self.append(exchange, Entry::Piece { artifact, part: Part::text(one), is_last: false }).await?;
            rest = left;
        }
        Ok(())
    }

    async fn append(&self, exchange: u64, entry: Entry) -> Result<(), String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&exchange).cloned();
        let Some(open) = open else { return Ok(()) };
        sent(&open.entries, entry).await
    }

    async fn record_end(&self, exchange: u64, why: Option<String>) -> Result<(), String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&exchange);
        let Some(open) = open else { return Ok(()) };
        sent(&open.entries, Entry::End(why)).await?;
        open.task.finished().await.map(drop).map_err(|error| error.to_string())
    }

    /// Ends what is open, and closes the log. A stream of which a command had what it wanted is complete; one that was open
    /// when the command failed is not.
    ///
    /// # Errors
    /// [`Failure`] if something could not be written.
    pub(crate) async fn close(&self, is_done: bool) -> Result<(), Failure> {
        let open: Vec<u64> =
            self.open.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        let failed = |why: String| {
            Failure::internal(
                format!("the recording could not be ended: {why}"),
                "`taskreel verify` checks it",
            )
        };
        for exchange in open {
            let why = (!is_done).then(|| "the command has ended before the exchange".to_owned());
            self.record_end(exchange, why).await.map_err(failed)?;
        }
        self.system.clone().shutdown().await.map_err(|error| failed(error.to_string()))
    }
}

/// Carries out the task of an exchange: what is given is appended, until the end.
async fn exchange(cx: HandlerContext, work: Option<Work>) -> Result<HandlerEnd, ToolError> {
    let Some(Work { started, mut entries }) = work else {
        return Ok(HandlerEnd::Failed("the recording program has ended before the exchange".to_owned()));
    };
    let _told = started.send(());
    while let Some((entry, done)) = entries.recv().await {
        match entry {
            Entry::Piece { artifact, part, is_last } => {
                let id = format!("{}-{artifact}", cx.task_id());
                let kept = cx.append_piece(&id, vec![part], is_last).await;
                let _told = done.send(kept.map_err(|error| error.to_string()));
            }
            Entry::End(why) => {
                let _told = done.send(Ok(()));
                return Ok(why.map_or(HandlerEnd::Completed, HandlerEnd::Failed));
            }
        }
    }
    Ok(HandlerEnd::Failed("the command has ended before the exchange".to_owned()))
}

/// Gives an entry to the task, and waits until it is on disk.
async fn sent(entries: &mpsc::Sender<Queued>, entry: Entry) -> Result<(), String> {
    let over = || "the task of the exchange is over".to_owned();
    let (done, kept) = oneshot::channel();
    entries.send((entry, done)).await.map_err(|_| over())?;
    kept.await.map_err(|_| over())?
}

fn piece(artifact: &'static str, head: &JsonObject, is_last: bool) -> Entry {
    Entry::Piece { artifact, part: Part::new("json", head.to_text()), is_last }
}

fn now() -> String {
    Ports::default().clock.now().to_string()
}

fn cleaned(headers: &[(String, String)], redactor: &Redactor) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.clone(), redactor.clean(value))).collect()
}

fn fields(headers: &[(String, String)]) -> JsonText {
    let mut object = JsonObject::new();
    for (name, value) in headers {
        // A header may come more than once.
        let before = object.get(name).and_then(JsonText::to_str);
        let value = before.map_or_else(|| value.clone(), |before| format!("{before}, {value}"));
        object.set(name, JsonText::string(&value));
    }
    object.to_text()
}

/// Puts a body into a head: as JSON where it is some, else as a text. One that is too long is returned, and the head names the
/// artifact that gets it.
fn with_body(head: &mut JsonObject, body: Option<&str>, artifact: &str) -> Option<String> {
    let body = body.filter(|body| !body.is_empty())?;
    if body.len() > PIECE {
        head.set("body_in", JsonText::string(artifact));
        head.set("bytes", JsonText::of_model(&body.len()));
        return Some(body.to_owned());
    }
    let json = JsonText::parse(body).ok().filter(|json| json.as_str() == body);
    head.set("body", json.unwrap_or_else(|| JsonText::string(body)));
    None
}
