//! `show` of a task: its states, calls, approvals and items, with versions and times.

use proto_events::call;
use proto_events::call::{Call, CallStatus, TokenUsage};
use proto_events::id::StreamId;
use proto_events::task::{Task, WebhookRegistration};
use taskreel_log::api::EventReader;
use taskreel_log::audit::json::one_line;
use taskreel_log::audit::words::{call_name, parts_text, reduction, result_text};
use taskreel_log::documents::task_json;
use taskreel_log::read::fold_stream;
use taskreel_log::views::{ApprovalTimes, CallTimes, TaskHistory, TaskRow, task_history, waiting_for};

use crate::print::problem::Problem;
use crate::print::screen::{Screen, count};
use crate::print::time;

/// Shows a task.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn show_task(
    reader: &dyn EventReader,
    stream: &StreamId,
    screen: &mut Screen,
) -> Result<(), Problem> {
    let folded = fold_stream::<Task>(reader, stream, None)?;
    let task = &folded.state;
    let row = TaskRow::new(stream, &folded);
    let history = task_history(reader, stream)?;
    if screen.json {
        return screen.json_line(&task_json(&row, folded.version, task, &history));
    }
    summary(task, &row, &history, screen)?;
    states(&history, screen)?;
    for call in task.calls().iter() {
        print_call(call, history.call(&call.request.call_id), screen)?;
    }
    for approval in &history.approvals {
        print_approval(approval, screen)?;
    }
    for registered in task.webhooks().iter() {
        print_webhook(registered, screen)?;
    }
    items(task, screen)
}

fn summary(task: &Task, row: &TaskRow, history: &TaskHistory, screen: &mut Screen) -> Result<(), Problem> {
    let session =
        row.session.as_ref().map_or_else(String::new, |id| format!("   session {}", screen.plain(id)));
    let id = screen.bold(&screen.plain(task.id()));
    screen.line(&format!("task {id}   {}{session}", screen.state(task.state())))?;
    let first = history.states.first().map_or(row.last_at, |first| first.at);
    screen.line(&format!(
        "{}, {} to {}, {} ({} ago)",
        count(row.events, "event", "events"),
        time::local(first),
        time::of_day(row.last_at),
        time::since(first, row.last_at),
        time::age(row.last_at)
    ))?;
    let sum = history.calls.iter().filter_map(|call| call.usage).fold((0_u64, 0_u64), |sum, usage| {
        (sum.0.saturating_add(usage.input_tokens), sum.1.saturating_add(usage.output_tokens))
    });
    if sum != (0, 0) {
        screen.line(&format!("tokens {} in, {} out", sum.0, sum.1))?;
    }
    let costs = task.costs();
    if !costs.is_empty() {
        screen.line(&format!("cost {costs}"))?;
    }
    if let Some(waits) = waiting_for(task) {
        let waits = screen.fit(&waits, 10);
        screen.line(&format!("waits for {waits}"))?;
    }
    if let Some(error) = task.error() {
        let error = screen.fit(&error, 7);
        screen.line(&format!("error: {error}"))?;
    }
    Ok(())
}

/// Prints the states, then each with its version and time.
fn states(history: &TaskHistory, screen: &mut Screen) -> Result<(), Problem> {
    let path: Vec<_> = history.states.iter().map(|step| step.state.as_str()).collect();
    let path = screen.plain(&path.join(" → "));
    screen.line("")?;
    screen.line(&path)?;
    let mut before = None;
    for step in &history.states {
        let since = before.replace(step.at).map_or_else(String::new, |before| time::since(before, step.at));
        let version = format!("v{}", step.version);
        screen.line(&format!("  {version:<6} {} {since:>9}  {}", time::of_day(step.at), step.state))?;
    }
    Ok(())
}

fn print_call(call: &Call, times: Option<&CallTimes>, screen: &mut Screen) -> Result<(), Problem> {
    let request = &call.request;
    let name = screen.bold(&screen.plain(&call_name(request)));
    screen.line("")?;
    let versions = times.map_or_else(String::new, |times| match times.ended {
        Some((ended, _)) => format!("v{} to v{ended}  ", times.version),
        None => format!("v{}  ", times.version),
    });
    let took = times
        .and_then(CallTimes::took_us)
        .map_or_else(String::new, |took| format!("  {}", time::span_us(took)));
    screen.line(&format!(
        "{versions}{name}  {}{took}{}",
        call.status.as_str(),
        tokens(times.and_then(|times| times.usage))
    ))?;
    let id = screen.plain(&request.call_id);
    let attempts = count(u64::from(call.attempts), "attempt", "attempts");
    screen.line(&format!("  id      {id}  {}, {attempts}", request.recovery.as_str()))?;
    if let Some(sent) = times.and_then(|times| times.sent_at) {
        screen.line(&format!("  sent    {}", time::local(sent)))?;
    }
    let args = screen.fit(&one_line(&request.args), 10);
    screen.line(&format!("  args    {args}"))?;
    if let Some(reduced) = reduction(request) {
        screen.line(&format!("  shown   {}", screen.fit(&reduced, 10)))?;
    }
    let result = answered(call);
    if !result.is_empty() {
        let result = screen.fit(&result, 10);
        screen.line(&format!("  result  {result}"))?;
    }
    if let Some(approval) = times.and_then(|times| times.approval_id.as_ref()) {
        let approval = screen.plain(approval);
        screen.line(&format!("  allowed by approval {approval}"))?;
    }
    for (version, at, words) in times.iter().flat_map(|times| &times.verdicts) {
        let words = screen.plain(words);
        screen.line(&format!("  v{version} {}  {words}", time::local(*at)))?;
    }
    Ok(())
}

fn print_webhook(registered: &WebhookRegistration, screen: &mut Screen) -> Result<(), Problem> {
    let WebhookRegistration { webhook, through, state, .. } = registered;
    let name = screen.bold(&screen.plain(&format!("webhook {}", webhook.id)));
    screen.line("")?;
    screen.line(&format!("{name}  {}, told up to v{through}", state.as_str()))?;
    let url = screen.plain(&webhook.url);
    screen.line(&format!("  url     {url}"))?;
    if let Some(failure) = registered.failure() {
        let attempts = count(u64::from(failure.attempts), "attempt", "attempts");
        let error = screen.fit(&failure.error, 10);
        screen.line(&format!("  failed  {}, {attempts}: {error}", time::local(failure.at)))?;
    }
    Ok(())
}

fn tokens(usage: Option<TokenUsage>) -> String {
    usage.map_or_else(String::new, |usage| {
        format!("  {} + {} tokens", usage.input_tokens, usage.output_tokens)
    })
}

/// Returns what came of a call: its result or its failure in words.
pub(crate) fn answered(call: &Call) -> String {
    match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(call::Verdict::Landed(result)) => {
            result_text(result)
        }
        CallStatus::Failed(failure) => failure.message.clone(),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) | CallStatus::Asked(why) => why.clone(),
        _ => String::new(),
    }
}

fn print_approval(approval: &ApprovalTimes, screen: &mut Screen) -> Result<(), Problem> {
    let tool = screen.bold(&screen.plain(&format!("approval of {}", approval.tool)));
    let state = match &approval.decision {
        None => "waits for a person".to_owned(),
        Some(decision) => {
            let word = if decision.approved { "approved" } else { "denied" };
            let reason = decision.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            let by = format!("{} ({})", decision.by, decision.by.basis.as_str());
            format!(
                "{word} by {by} v{} {}, after {}{reason}",
                decision.version,
                time::local(decision.at),
                time::span_us(
                    u64::try_from(decision.at.0.saturating_sub(approval.requested_at.0)).unwrap_or(0)
                )
            )
        }
    };
    screen.line("")?;
    let (id, state) = (screen.plain(&approval.approval_id), screen.plain(&state));
    screen.line(&format!("v{}  {tool}  {id}", approval.version))?;
    screen.line(&format!("  {state}"))?;
    // What a person approves, or approved, is never cut.
    let args = screen.plain(&one_line(&approval.args));
    screen.line(&format!("  args    {args}"))
}

fn items(task: &Task, screen: &mut Screen) -> Result<(), Problem> {
    screen.line("")?;
    for message in task.messages() {
        let role = screen.plain(message.role.as_deref().unwrap_or("nobody"));
        let said = screen.fit(&parts_text(&message.parts), role.chars().count() + 2);
        screen.line(&format!("{role}: {said}"))?;
    }
    for artifact in task.artifacts() {
        let made = screen.fit(&parts_text(&artifact.parts), 8);
        screen.line(&format!("output: {made}"))?;
    }
    Ok(())
}
