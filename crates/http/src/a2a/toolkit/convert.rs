//! A2A's data as the views and the minimizing of artifacts read it.

use taskreel_log::artifacts::{
    A2aArtifact, A2aFile, A2aFileContent, A2aMessage, A2aPart, A2aStatus, A2aTask,
};

use crate::a2a::model::{Artifact, Content, Message, Part, Task};

fn part(part: &Part) -> A2aPart {
    let file = |content| {
        A2aPart::File(A2aFile { name: part.filename.clone(), mime_type: part.media_type.clone(), content })
    };
    match &part.content {
        Content::Text(text) => A2aPart::Text(text.clone()),
        Content::Data(data) => A2aPart::Data(data.tree()),
        Content::Raw(raw) => file(A2aFileContent::Bytes(raw.clone())),
        Content::Url(url) => file(A2aFileContent::Uri(url.clone())),
    }
}

/// Returns an artifact.
pub(crate) fn artifact(artifact: &Artifact) -> A2aArtifact {
    A2aArtifact {
        artifact_id: artifact.id.clone(),
        name: artifact.name.clone(),
        description: artifact.description.clone(),
        parts: artifact.parts.iter().map(part).collect(),
    }
}

/// Returns a message.
pub(crate) fn message(message: &Message) -> A2aMessage {
    A2aMessage {
        message_id: message.id.clone(),
        context_id: message.context_id.clone(),
        task_id: message.task_id.clone(),
        parts: message.parts.iter().map(part).collect(),
    }
}

/// Returns a task without its history, which no model is shown.
pub(crate) fn task(task: &Task) -> A2aTask {
    A2aTask {
        id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: A2aStatus {
            state: task.status.state.words().1.to_owned(),
            message: task.status.message.as_ref().map(message),
        },
        artifacts: task.artifacts.iter().flatten().map(artifact).collect(),
        history: Vec::new(),
    }
}

/// Whether a part is a file.
pub(crate) fn is_file(part: &Part) -> bool {
    matches!(part.content, Content::Raw(_) | Content::Url(_))
}
