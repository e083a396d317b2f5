//! Parts of an artifact: looked up among the kept tasks, then asked of the agent.

use proto_events::json::JsonValue as Value;
use proto_events::limits::JSON_DEPTH_MAX;
use taskreel_log::artifacts::{
    A2aArtifact, A2aPart, ArtifactError, ArtifactForLlm, CharacterLimit, DataArtifacts, DataPartForLlm,
    DataSelection, PartForLlm, TextArtifacts, TextPartForLlm, TextSelection,
};

use crate::a2a::model::{Artifact, Task};
use crate::a2a::toolkit::convert;
use crate::a2a::toolkit::error::{SessionError, check_id};
use crate::a2a::toolkit::session::{A2aSession, blocking};

/// The levels that data may have inside an answer, which has three around them.
const LEVELS_MAX: usize = JSON_DEPTH_MAX - 3;

/// The characters between two texts of an artifact, where they are shown or cut as one.
pub(crate) const BETWEEN_TEXTS: &str = "\n";

impl A2aSession {
    /// Returns a range of the texts of an artifact, which are joined by line breaks. It is looked up among the tasks that are
    /// kept, then at the agent.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn view_text_artifact(
        &self,
        agent_id: &str,
        task_id: &str,
        artifact_id: &str,
        selection: TextSelection,
        limit: CharacterLimit,
    ) -> Result<ArtifactForLlm, SessionError> {
        let found = self.artifact(agent_id, task_id, artifact_id).await?;
        blocking(move || {
            let artifact = convert::artifact(&found);
            let texts: Vec<&str> = artifact
                .parts
                .iter()
                .filter_map(|part| if let A2aPart::Text(text) = part { Some(text.as_str()) } else { None })
                .collect();
            if texts.is_empty() {
                return Err(wrong(&artifact, "text").into());
            }
            let text = TextArtifacts::view(&texts.join(BETWEEN_TEXTS), &selection, limit)?.to_owned();
            Ok(shown(&artifact, PartForLlm::Text(TextPartForLlm { text, cut: None })))
        })
        .await
    }

    /// Returns a part of the data of an artifact: of its one data part, or of the list of several. It is looked up among the
    /// tasks that are kept, then at the agent.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn view_data_artifact(
        &self,
        agent_id: &str,
        task_id: &str,
        artifact_id: &str,
        selection: DataSelection,
        limit: CharacterLimit,
    ) -> Result<ArtifactForLlm, SessionError> {
        let found = self.artifact(agent_id, task_id, artifact_id).await?;
        blocking(move || {
            let artifact = convert::artifact(&found);
            let mut data: Vec<Value> = artifact
                .parts
                .iter()
                .filter_map(|part| if let A2aPart::Data(data) = part { Some(data.clone()) } else { None })
                .collect();
            let data = match (data.pop(), data.is_empty()) {
                (None, _) => return Err(wrong(&artifact, "data").into()),
                (Some(only), true) => only,
                (Some(last), false) => {
                    data.push(last);
                    Value::from(data)
                }
            };
            let data = DataArtifacts::view(&data, &selection, limit)?.into_owned();
            let levels = levels(&data);
            if levels > LEVELS_MAX {
                return Err(ArtifactError::TooDeep { levels, most: LEVELS_MAX }.into());
            }
            Ok(shown(&artifact, PartForLlm::Data(DataPartForLlm { data })))
        })
        .await
    }

    async fn artifact(
        &self,
        agent_id: &str,
        task_id: &str,
        artifact_id: &str,
    ) -> Result<Artifact, SessionError> {
        // A malformed id is told as such, whatever the store makes of it.
        check_id("task id", task_id)?;
        let of =
            |task: Task| task.artifacts.into_iter().flatten().find(|artifact| artifact.id == artifact_id);
        if let Some(found) = self.kept_task(agent_id, task_id).await.and_then(of) {
            return Ok(found);
        }
        let told = self.get(agent_id, task_id, None, None).await?;
        let (artifact, task) = (artifact_id.to_owned(), task_id.to_owned());
        of(told.task).ok_or_else(|| ArtifactError::NoSuchArtifact { artifact, task }.into())
    }
}

fn shown(artifact: &A2aArtifact, part: PartForLlm) -> ArtifactForLlm {
    ArtifactForLlm {
        artifact_id: artifact.artifact_id.clone(),
        description: artifact.description.clone(),
        name: artifact.name.clone(),
        parts: vec![part],
    }
}

fn wrong(artifact: &A2aArtifact, wanted: &'static str) -> ArtifactError {
    let name = |part: &A2aPart| match part {
        A2aPart::Text(_) => "TextPart",
        A2aPart::Data(_) => "DataPart",
        _ => "FilePart",
    };
    let mut found: Vec<&'static str> = artifact.parts.iter().map(name).collect();
    found.sort_unstable();
    found.dedup();
    ArtifactError::WrongContent { artifact: artifact.artifact_id.clone(), wanted, found }
}

/// Returns the number of lists and objects inside one another.
pub(crate) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}
