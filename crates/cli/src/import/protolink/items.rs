//! The tasks and sessions of a Protolink program, read into what a log takes in: each task with the reports of its run, each session
//! with its messages.

use std::collections::BTreeMap;

use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ConversationHistory, PostedTask};
use proto_events::task::command_content;
use taskreel::{KeptItem, KeptStream};
use taskreel_log::ports::Ports;

use crate::import::protolink::database::{Database, ReportRow, TaskRow, Unread};
use crate::print::problem::Problem;

/// The agent of tasks for which no agent is recorded: taskreel's own default.
const DEFAULT_AGENT: &str = "agent";

/// The key of the metadata under which what else was kept of a task is found.
const KEY: &str = "protolink_import";

/// An item of the file.
pub(super) struct ImportItem {
    /// The kind: `task` or `session`.
    pub(super) kind: &'static str,
    pub(super) agent: String,
    pub(super) id: String,
    /// The item to be taken in, or the reason why it cannot be.
    pub(super) kept: Result<KeptStream, String>,
}

/// A failure that ends the reading.
pub(super) enum ItemError {
    Unread(Unread),
    Problem(Problem),
}

impl From<Unread> for ItemError {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

/// Shows everything that the file holds: the tasks, then the sessions.
pub(super) fn each(
    database: &Database,
    agent: Option<&str>,
    mut show: impl FnMut(ImportItem) -> Result<(), ItemError>,
) -> Result<(), ItemError> {
    let mut reports = reports(database)?;
    database.tasks(|row| {
        let of_run = row.run_id.as_ref().and_then(|run| reports.remove(&(run.clone(), row.agent.clone())));
        show(task(&row, of_run.as_ref(), agent))
    })?;
    // Of these runs the task was not kept by itself.
    for report in reports.into_values() {
        show(task_of_report(&report, agent))?;
    }
    database
        .values(|namespace, value| sessions(&namespace, &value, agent).into_iter().try_for_each(&mut show))
}

/// Returns the reports by run and agent.
fn reports(database: &Database) -> Result<BTreeMap<(String, Option<String>), ReportRow>, ItemError> {
    let mut reports = BTreeMap::new();
    database.reports(|row| {
        reports.insert((row.run_id.clone(), row.agent.clone()), row);
        Ok::<(), Unread>(())
    })?;
    Ok(reports)
}

fn task(row: &TaskRow, report: Option<&ReportRow>, agent: Option<&str>) -> ImportItem {
    let read = || -> Result<(PostedTask, JsonObject), String> {
        let task = JsonText::parse(&row.task).map_err(|error| error.to_string())?;
        let posted =
            PostedTask::from_json(&task, &mut Ports::default()).map_err(|error| error.to_string())?;
        let mut kept = JsonObject::new();
        kept.set("updated_at", JsonText::string(&row.updated_at));
        add(&mut kept, "metadata", &row.metadata)?;
        if let Some(report) = report {
            add_report(&mut kept, report)?;
        }
        Ok((posted, kept))
    };
    let mut source = vec![row.task.as_str(), &row.metadata];
    if let Some(report) = report {
        source.extend([report.report.as_str(), &report.metadata]);
    }
    found_task(read(), &source, agent.or(row.agent.as_deref()), &row.task)
}

/// Returns the task with which a run ended whose task was not kept by itself.
fn task_of_report(row: &ReportRow, agent: Option<&str>) -> ImportItem {
    let read = || -> Result<(PostedTask, JsonObject), String> {
        let report = JsonText::parse(&row.report).map_err(|error| error.to_string())?;
        let last = report.read::<JsonObject>().ok().and_then(|report| report.get("final_task").cloned());
        let Some(last) = last.filter(JsonText::is_object) else {
            return Err(format!("the report of the run `{}` holds no task", row.run_id));
        };
        let posted = PostedTask::from_json(&last, &mut Ports::default());
        let mut kept = JsonObject::new();
        add_report(&mut kept, row)?;
        Ok((posted.map_err(|error| error.to_string())?, kept))
    };
    let source = [row.report.as_str(), &row.metadata];
    let mut found = found_task(read(), &source, agent.or(row.agent.as_deref()), "");
    if found.kept.is_err() {
        found.id.clone_from(&row.run_id);
    }
    found
}

fn found_task(
    read: Result<(PostedTask, JsonObject), String>,
    source: &[&str],
    agent: Option<&str>,
    text: &str,
) -> ImportItem {
    let agent = agent.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_AGENT).to_owned();
    let (id, kept) = match read {
        Err(why) => {
            let id = JsonText::parse(text)
                .ok()
                .and_then(|task| task.tree().get("id")?.as_str().map(str::to_owned));
            (id.unwrap_or_default(), Err(why))
        }
        Ok((task, kept)) => {
            let (id, mut metadata) = (task.id.clone(), JsonObject::new());
            metadata.set(KEY, kept.to_text());
            let what = KeptItem::Task { task: Box::new(task), metadata };
            let checked = StreamId::task(&agent, &id).map_err(|error| error.to_string());
            let source = command_content("protolink-task", source);
            (id, checked.map(|_| KeptStream { agent: agent.clone(), what, source }))
        }
    };
    ImportItem { kind: "task", agent, id, kept }
}

fn add(kept: &mut JsonObject, key: &str, text: &str) -> Result<(), String> {
    let value = JsonText::parse(text).map_err(|error| format!("its {key}: {error}"))?;
    if value != JsonText::empty_object() {
        kept.set(key, value);
    }
    Ok(())
}

fn add_report(kept: &mut JsonObject, report: &ReportRow) -> Result<(), String> {
    kept.set("run_id", JsonText::string(&report.run_id));
    kept.set("reported_at", JsonText::string(&report.created_at));
    add(kept, "report", &report.report)?;
    add(kept, "report_metadata", &report.metadata)
}

/// Returns the sessions of a value; one that holds something else than histories has none.
fn sessions(namespace: &str, value: &str, agent: Option<&str>) -> Vec<ImportItem> {
    let agent = agent.unwrap_or(namespace).to_owned();
    let unread = |id: &str, why: String| ImportItem {
        kind: "session",
        agent: agent.clone(),
        id: id.to_owned(),
        kept: Err(why),
    };
    let value: JsonObject = match JsonText::parse(value).and_then(|value| value.read()) {
        Ok(value) => value,
        Err(error) => return vec![unread("", format!("the value of `{namespace}` cannot be read: {error}"))],
    };
    let sessions = value.iter().map(|(id, history)| {
        let text = history.as_str();
        let history = ConversationHistory::from_json(history, &mut Ports::default());
        match history {
            _ if !text.trim_start().starts_with('[') => unread(id, "it is no list of messages".to_owned()),
            Err(error) => unread(id, error.to_string()),
            Ok(history) => {
                let checked = StreamId::session(&agent, id).map_err(|error| error.to_string());
                let what = KeptItem::Session { id: id.to_owned(), messages: history.as_slice().to_vec() };
                let source = command_content("protolink-session", &[text]);
                let kept = checked.map(|_| KeptStream { agent: agent.clone(), what, source });
                ImportItem { kind: "session", agent: agent.clone(), id: id.to_owned(), kept }
            }
        }
    });
    sessions.collect()
}
