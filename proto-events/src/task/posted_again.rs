//! The comparison of a task posted under a known id with the stored one: the same body, the stored task with
//! items appended, or a conflict that names the first difference (design: "A posted task whose id is known").

use std::fmt;

use crate::json::JsonValue as Value;
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::posted_task::PostedTask;
use crate::task::state::Task;

/// The first place where a posted task differs from the stored one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedDifference {
    /// The field, such as `messages[2].id`.
    pub place: String,
    /// The stored value.
    pub stored: String,
    /// The posted value.
    pub posted: String,
}

impl fmt::Display for PostedDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} in the log and {} in the posted task", self.place, self.stored, self.posted)
    }
}

/// The meaning of a repeated post.
#[derive(Debug, PartialEq)]
pub(super) enum Comparison {
    /// The post contains nothing new.
    Same,
    /// The post is the stored task followed by these items.
    Longer { messages: Vec<Message>, artifacts: Vec<Artifact> },
    /// The post differs from the stored task.
    Other(PostedDifference),
}

/// Compares a post with the stored task. The same text is the same post, whatever its task has become since
/// ([`PostedTask::source`]).
/// Otherwise items are compared by id, as Protolink's clients keep them.
pub(super) fn compare(stored: &Task, posted: &PostedTask) -> Comparison {
    if posted.source.is_some_and(|source| stored.sources.contains(&source)) {
        return Comparison::Same;
    }
    if is_known_beginning(stored, posted) {
        return Comparison::Same;
    }
    let messages = ids(stored.messages(), |message| message.id.clone());
    let posted_messages = ids(&posted.messages, |message| message.id.clone());
    if let Some(difference) = first_difference("messages", &messages, &posted_messages) {
        return Comparison::Other(difference);
    }
    let artifacts = ids(stored.artifacts(), |artifact| artifact.id.clone());
    let posted_artifacts = ids(&posted.artifacts, |artifact| artifact.id.clone());
    let contents = stored.messages().iter().zip(&posted.messages).enumerate();
    if let Some(difference) =
        contents.into_iter().find_map(|(at, (stored, posted))| other_content(at, stored, posted))
    {
        return Comparison::Other(difference);
    }
    // A client that replies to a question may not have read the artifacts, so missing artifacts do not count
    // as a difference.
    if posted_artifacts.len() >= artifacts.len() {
        if let Some(difference) = first_difference("artifacts", &artifacts, &posted_artifacts) {
            return Comparison::Other(difference);
        }
    } else if let Some(difference) = first_difference("artifacts", &posted_artifacts, &artifacts) {
        return Comparison::Other(difference);
    }
    let new_messages: Vec<_> = posted.messages.iter().skip(messages.len()).cloned().collect();
    let new_artifacts: Vec<_> = posted.artifacts.iter().skip(artifacts.len()).cloned().collect();
    if new_messages.is_empty() && new_artifacts.is_empty() {
        return Comparison::Same;
    }
    Comparison::Longer { messages: new_messages, artifacts: new_artifacts }
}

/// Whether the post is what the task was submitted with, or that and items that came later, but none that is
/// not stored: a client that prints its request again repeats it.
fn is_known_beginning(stored: &Task, posted: &PostedTask) -> bool {
    let (messages, artifacts) = stored.submitted_items;
    let known = |stored: &[Option<String>], posted: &[Option<String>]| {
        stored.starts_with(posted) && posted.iter().all(Option::is_some)
    };
    posted.messages.len() >= messages
        && posted.artifacts.len() >= artifacts
        && known(
            &ids(stored.messages(), |item| item.id.clone()),
            &ids(&posted.messages, |item| item.id.clone()),
        )
        && known(
            &ids(stored.artifacts(), |item| item.id.clone()),
            &ids(&posted.artifacts, |item| item.id.clone()),
        )
        && stored
            .messages()
            .iter()
            .zip(&posted.messages)
            .all(|(stored, posted)| other_content(0, stored, posted).is_none())
}

/// Returns the first difference in content between messages of the same id. JSON is compared by value,
/// because a client may print it differently. Call ids are ignored, because a missing one is generated at
/// each reading.
fn other_content(at: usize, stored: &Message, posted: &Message) -> Option<PostedDifference> {
    let difference = |field: &str, stored: String, posted: String| PostedDifference {
        place: format!("messages[{at}].{field}"),
        stored,
        posted,
    };
    if stored.role != posted.role {
        return Some(difference("role", format!("{:?}", stored.role), format!("{:?}", posted.role)));
    }
    if stored.parts.len() != posted.parts.len() {
        let count = |parts: &[Part]| format!("{} parts", parts.len());
        return Some(difference("parts", count(&stored.parts), count(&posted.parts)));
    }
    let pairs = stored.parts.iter().zip(&posted.parts).enumerate();
    pairs
        .filter(|(_, (stored, posted))| content_without_call(stored) != content_without_call(posted))
        .map(|(part, (stored, posted))| {
            let brief = |part: &Part| part.to_json().as_str().chars().take(80).collect::<String>();
            difference(&format!("parts[{part}]"), brief(stored), brief(posted))
        })
        .next()
}

/// Returns the kind and content of a part without its call id.
fn content_without_call(part: &Part) -> (&str, Value) {
    let mut content = part.content().tree();
    if let (Value::Object(fields), "tool_call" | "tool_output") = (&mut content, part.kind()) {
        fields.remove("call_id");
    }
    (part.kind(), content)
}

fn ids<'a, T: 'a>(
    items: impl IntoIterator<Item = &'a T>,
    id: impl Fn(&T) -> Option<String>,
) -> Vec<Option<String>> {
    items.into_iter().map(id).collect()
}

/// Returns the first index at which `prefix` is not the beginning of `whole`.
fn first_difference(
    field: &str,
    prefix: &[Option<String>],
    whole: &[Option<String>],
) -> Option<PostedDifference> {
    let show = |id: Option<&Option<String>>| match id {
        None => "absent".to_owned(),
        Some(None) => "null".to_owned(),
        Some(Some(id)) => format!("`{id}`"),
    };
    prefix.iter().enumerate().find(|(at, id)| whole.get(*at) != Some(id)).map(|(at, id)| PostedDifference {
        place: format!("{field}[{at}].id"),
        stored: show(Some(id)),
        posted: show(whole.get(at)),
    })
}
