//! A service of your own on actix-web that hands tasks to agents. taskreel's actors run on an actix system of
//! their own, on their own thread: the two do not conflict, and each worker of the server, itself a runtime,
//! uses the same `System`. Tools and models run on a third runtime here, so that a slow one does not block a
//! worker.
//!
//! ```text
//! POST /tasks             a task in Protolink's JSON     202 and its location; 400 if it is not a task
//! GET  /tasks/ID          the task as recorded on disk    404 if there is none
//! GET  /tasks/ID/events   the events so far; `axum_host` shows how to follow them
//! ```
//!
//! `cargo run --example actix_host` calls itself over TCP and ends; `-- --serve` runs until you press Enter.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{App, HttpResponse, HttpServer, ResponseError, web};
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::proto_events::id::Version;
use taskreel::{Error, PostedTask, System};
use taskreel_log::ports::Ports;
use taskreel_log::views::event_rows;

#[path = "support/client.rs"]
mod client;

/// The error response of every handler.
#[derive(Debug)]
struct Refused(Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ResponseError for Refused {
    fn status_code(&self) -> StatusCode {
        match &self.0 {
            Error::TaskNotFound(_) => StatusCode::NOT_FOUND,
            Error::Task(_) => StatusCode::CONFLICT,
            Error::Model(_) | Error::Id(_) => StatusCode::BAD_REQUEST,
            // Nothing was written: the same request can be sent again.
            Error::Overloaded { .. } | Error::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).json(json!({"error": self.to_string()}))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Submits a task. Responds when the task is on disk, not when it is done.
async fn submit(system: web::Data<System>, body: String) -> Result<HttpResponse, Refused> {
    let task = PostedTask::parse(&body, &mut Ports::default()).map_err(Error::from)?;
    let sent = system.submit(task).await?;
    let links = json!({"id": sent.id(), "events": format!("/tasks/{}/events", sent.id())});
    Ok(HttpResponse::Accepted().json(links))
}

async fn show(system: web::Data<System>, id: web::Path<String>) -> Result<HttpResponse, Refused> {
    let task = system.task(&id)?.snapshot().await?.to_json();
    // Sent as stored: numbers and keys keep their form.
    Ok(HttpResponse::Ok().content_type("application/json").body(task.as_str().to_owned()))
}

/// Returns the events of a finished task, one frame for each record.
async fn events(system: web::Data<System>, id: web::Path<String>) -> Result<HttpResponse, Refused> {
    let task = system.task(&id)?;
    task.finished().await?;
    let (log, stream) = (system.log(), task.stream().clone());
    let read = web::block(move || log.read_stream(&stream, Version(1), usize::MAX)).await;
    let records = read.map_err(|error| Error::Internal(error.to_string()))?.map_err(Error::from)?;
    let frames = records.iter().map(|record| {
        let rows: Vec<String> =
            event_rows(record).iter().map(|row| row.to_json().as_str().to_owned()).collect();
        format!("data: [{}]\n\n", rows.join(","))
    });
    Ok(HttpResponse::Ok().content_type("text/event-stream").body(frames.collect::<String>()))
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let scratch = tempfile::tempdir()?;
    let answer = Entry::json(&json!({"type": "final", "content": "4 degrees: take a coat."}));
    let model = Scripted::by_prompt([(String::new(), vec![answer])]);
    let system = System::builder(scratch.path().join("log")).infer(model).own_runtime(1).start().await?;

    let shared = web::Data::new(system.clone());
    let app = move || {
        App::new()
            .app_data(web::Data::clone(&shared))
            .route("/tasks", web::post().to(submit))
            .route("/tasks/{id}", web::get().to(show))
            .route("/tasks/{id}/events", web::get().to(events))
    };
    let server = HttpServer::new(app).workers(2).disable_signals().bind(("127.0.0.1", 0))?;
    let address = *server.addrs().first().ok_or("no address")?;
    let server = server.run();
    let handle = server.handle();
    let served = actix_web::rt::spawn(server);
    web::block(move || client::use_it(address)).await??;

    // First stop new requests, then new work; what is acknowledged is on disk either way.
    handle.stop(true).await;
    served.await??;
    system.shutdown().await?;
    Ok(())
}
