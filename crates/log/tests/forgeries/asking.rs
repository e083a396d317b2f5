//! The asks of a log: the parts of items and the outputs that its intents lack are filled in, as the system writes them.

use std::collections::HashMap;

use proto_events::call::{CallEvent, CallKind};
use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::{Part, TaskState};
use proto_events::task::TaskEvent;

use super::events::json;
use super::log::Log;

/// The place of an event: its record and its number there.
type Place = (usize, usize);

/// A run: its item, and what it carries out.
#[derive(Default)]
struct Run {
    item: Option<Place>,
    infers: Vec<Place>,
    tools: Vec<Place>,
    /// The approvals of calls that were never made.
    approvals: Vec<Place>,
    outputs: Vec<Place>,
}

/// Gives each intent of a tool or a model the part that asks for it, and each output the content that its part has.
pub(crate) fn fill(log: &mut Log) {
    let mut last: HashMap<StreamId, Place> = HashMap::new();
    let mut open: HashMap<StreamId, Run> = HashMap::new();
    let mut runs = Vec::new();
    for (at, draft) in log.drafts.iter().enumerate() {
        let stream = &draft.stream;
        for (number, event) in draft.events.iter().enumerate() {
            let AnyEvent::Task(event) = event else { continue };
            let place = (at, number);
            let run = open.get_mut(stream);
            match event {
                TaskEvent::Submitted(_) | TaskEvent::MessageAppended(_) => {
                    last.insert(stream.clone(), place);
                }
                TaskEvent::StateChanged { to, .. } => {
                    runs.extend(open.remove(stream));
                    if *to == TaskState::Working {
                        let item = last.get(stream).copied();
                        open.insert(stream.clone(), Run { item, ..Run::default() });
                    }
                }
                TaskEvent::ArtifactAppended { part: Some(_), .. } => {
                    if let Some(run) = run {
                        run.outputs.push(place);
                    }
                }
                TaskEvent::Call(CallEvent::Requested(request)) => {
                    let is_own = request.origin.parent.is_none() && request.origin.infer_call.is_none();
                    let Some(run) = run.filter(|_| is_own) else { continue };
                    match request.kind {
                        CallKind::Infer => run.infers.push(place),
                        CallKind::Tool => run.tools.push(place),
                        CallKind::Delegate | CallKind::Handler => {}
                    }
                }
                TaskEvent::ApprovalRequested(asked) if asked.tool == "wipe" => {
                    if let Some(run) = run {
                        run.approvals.push(place);
                    }
                }
                _ => {}
            }
        }
    }
    for run in runs.into_iter().chain(open.into_values()) {
        run.fill(log);
    }
}

impl Run {
    fn fill(self, log: &mut Log) {
        let mut parts = Vec::new();
        for (step, place) in (1..).zip(&self.infers) {
            let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = at(log, *place) else {
                panic!()
            };
            (request.origin.part, request.origin.step) = (0, step);
            if step == 1 {
                parts.push(Part::infer("ask"));
            }
        }
        for place in self.tools.iter().chain(&self.approvals) {
            let part = u32::try_from(parts.len()).unwrap();
            let (tool, args) = match at(log, *place) {
                AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => {
                    request.origin.part = part;
                    (&request.target, &request.args)
                }
                AnyEvent::Task(TaskEvent::ApprovalRequested(asked)) => {
                    asked.origin.part = part;
                    (&asked.tool, &asked.args)
                }
                other => panic!("{other:?}"),
            };
            parts.push(Part::tool_call_of(tool, args.clone(), None));
        }
        for place in &self.outputs {
            let AnyEvent::Task(TaskEvent::ArtifactAppended { artifact, part }) = at(log, *place) else {
                panic!()
            };
            let of = part.and_then(|part| parts.get(usize::try_from(part).ok()?));
            artifact.parts = vec![match of.map(Part::kind) {
                Some("infer") => Part::infer_output(JsonText::string("yes")),
                _ => Part::tool_output("made", json("true")),
            }];
        }
        let Some(item) = self.item.filter(|_| !parts.is_empty()) else { return };
        let message = match at(log, item) {
            AnyEvent::Task(TaskEvent::Submitted(posted)) => posted.messages.last_mut().unwrap(),
            AnyEvent::Task(TaskEvent::MessageAppended(message)) => message,
            other => panic!("{other:?}"),
        };
        message.parts.retain(|part| part.kind() == "text");
        message.parts.splice(0..0, parts);
    }
}

fn at(log: &mut Log, (draft, event): Place) -> &mut AnyEvent {
    &mut log.drafts[draft].events[event]
}
