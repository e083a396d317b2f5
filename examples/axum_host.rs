//! A service of your own on axum that hands tasks to agents. The `System` is an ordinary value in the
//! router's state: cheap to clone, usable from every thread, with actors on a thread of its own.
//!
//! ```text
//! POST /tasks             a task in Protolink's JSON     202 and its location; 400 if it is not a task
//! GET  /tasks/ID          the task as recorded on disk    404 if there is none
//! GET  /tasks/ID/events   server-sent events, from the first one to the task's end
//! ```
//!
//! `cargo run --example axum_host` calls itself over TCP and ends; `-- --serve` runs until you press Enter.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, stream};
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::proto_events::id::Version;
use taskreel::{Error, PostedTask, System, TaskHandle};
use taskreel_log::ports::Ports;
use taskreel_log::read::{Delivery, Subscription};
use taskreel_log::views::event_rows;

#[path = "support/client.rs"]
mod client;

/// The error response of every handler.
struct Refused(Error);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Error::TaskNotFound(_) => StatusCode::NOT_FOUND,
            Error::Task(_) => StatusCode::CONFLICT,
            Error::Model(_) | Error::Id(_) => StatusCode::BAD_REQUEST,
            // Nothing was written: the same request can be sent again.
            Error::Overloaded { .. } | Error::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({"error": self.0.to_string()}))).into_response()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Submits a task. Responds when the task is on disk, not when it is done.
async fn submit(State(system): State<System>, body: String) -> Result<Response, Refused> {
    let task = PostedTask::parse(&body, &mut Ports::default()).map_err(Error::from)?;
    let sent = system.submit(task).await?;
    let links = json!({"id": sent.id(), "events": format!("/tasks/{}/events", sent.id())});
    Ok((StatusCode::ACCEPTED, Json(links)).into_response())
}

async fn show(State(system): State<System>, Path(id): Path<String>) -> Result<Response, Refused> {
    let task = system.task(&id)?.snapshot().await?.to_json();
    // Sent as stored: numbers and keys keep their form.
    Ok(([(header::CONTENT_TYPE, "application/json")], task.as_str().to_owned()).into_response())
}

async fn events(
    State(system): State<System>,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Error>>>, Refused> {
    let task = system.task(&id)?;
    task.snapshot().await?;
    Ok(Sse::new(told(system.subscribe_task(&id, Version(1))?, task)))
}

/// Returns a frame for each record of the task, up to its last one.
fn told(events: Subscription, task: TaskHandle) -> impl Stream<Item = Result<Event, Error>> {
    stream::unfold(Some((events, task)), |open| async move {
        let (mut events, task) = open?;
        let record = loop {
            match events.next().await? {
                Ok(Delivery::Record(record)) => break record,
                // Nothing is lost: the missed records follow from the log.
                Ok(_) => {}
                Err(error) => return Some((Err(error.into()), None)),
            }
        };
        let rows: Vec<String> =
            event_rows(&record).iter().map(|row| row.to_json().as_str().to_owned()).collect();
        let frame = Event::default().event("record").data(format!("[{}]", rows.join(",")));
        let last = match task.snapshot().await {
            Ok(task) => task.state().is_terminal() && record.record.last_version() >= task.version(),
            Err(error) => return Some((Err(error), None)),
        };
        Some((Ok(frame), (!last).then_some((events, task))))
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let scratch = tempfile::tempdir()?;
    let answer = Entry::json(&json!({"type": "final", "content": "4 degrees: take a coat."}));
    let model = Scripted::by_prompt([(String::new(), vec![answer])]);
    let system = System::builder(scratch.path().join("log")).infer(model).start().await?;
    let routes = Router::new()
        .route("/tasks", post(submit))
        .route("/tasks/{id}", get(show))
        .route("/tasks/{id}/events", get(events))
        .with_state(system.clone());

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let until = async { drop(stopped.await) };
    let server =
        tokio::spawn(async move { axum::serve(listener, routes).with_graceful_shutdown(until).await });
    tokio::task::spawn_blocking(move || client::use_it(address)).await??;

    // First stop new requests, then new work; what is acknowledged is on disk either way.
    let _gone_is_stopped = stop.send(());
    server.await??;
    system.shutdown().await?;
    Ok(())
}
