//! The arguments of a call as they were asked for, where the check against the tool's schema changed them: `"7"` became 7.

use proto_events::call::{CallOrigin, CallStatus};
use proto_events::json::JsonText;
use proto_events::model::Part;
use proto_events::task::Task;

use crate::audit::verify::replies::{Wish, Wishes};
use crate::audit::verify::suits::compare;

/// Returns the arguments that a model's reply or a posted part asks for, of a call of this tool with this origin. `None` if the
/// call has the same, or if the task does not tell what asked for it.
pub fn asked_args(task: &Task, origin: &CallOrigin, tool: &str, args: &JsonText) -> Option<JsonText> {
    let asked: Vec<JsonText> = match (&origin.infer_call, &origin.part_call_id) {
        (Some(infer_call), _) => {
            let CallStatus::Succeeded(reply) = &task.calls().get(infer_call)?.status else { return None };
            let of_tool = |wish| match wish {
                Wish::Tool { tool: named, args } if named == tool => Some(args),
                _ => None,
            };
            Wishes::from_reply(reply).all.into_iter().filter_map(of_tool).collect()
        }
        (None, Some(part_call_id)) => {
            let parts = task.messages().iter().flat_map(|message| &message.parts);
            let calls = parts.filter_map(|part: &Part| part.as_tool_call().ok());
            calls.filter(|call| call.call_id.as_ref() == Some(part_call_id)).map(|call| call.args).collect()
        }
        (None, None) => return None,
    };
    let suiting = || asked.iter().filter(|asked| compare(asked, args).is_some());
    let is_same = |asked: &&JsonText| asked.tree() == args.tree();
    if suiting().any(|asked| is_same(&asked)) { None } else { suiting().next().cloned() }
}
