//! The request to cancel a task.

use serde::Serialize;

use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;

/// A request to cancel a task. The reason is also in the metadata, and only these are sent.
///
/// On the wire `{"id", "metadata"}`; read are `task_id` in the place of `id`, and a `reason` of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskCancellationRequest {
    /// The task's id.
    pub id: String,
    /// The reason, if given.
    #[serde(skip)]
    pub reason: Option<String>,
    /// Further data of the request, including the reason.
    pub metadata: JsonObject,
}

impl TaskCancellationRequest {
    /// Returns a request; a reason is added to the metadata unless they contain one.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text if the id is blank.
    pub fn new(id: &str, reason: Option<&str>, mut metadata: JsonObject) -> Result<Self, ModelError> {
        if id.trim().is_empty() {
            return Err(ModelError::Invalid("TaskCancellationRequest.id must not be empty".to_owned()));
        }
        if let (Some(reason), None) = (reason, metadata.get("reason")) {
            metadata.set("reason", JsonText::string(reason));
        }
        Ok(Self { id: id.to_owned(), reason: reason.map(str::to_owned), metadata })
    }

    /// Reads a request; the id may be called `task_id`, the reason may be in the metadata only.
    ///
    /// # Errors
    /// [`ModelError`] if the id is blank or the metadata is not an object.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let metadata = fields.object("metadata")?;
        let id = fields.coerced_truthy("id").or_else(|| fields.coerced_truthy("task_id")).unwrap_or_default();
        let reason = match fields.get("reason") {
            Some(_) => fields.coerced("reason"),
            None => metadata.get("reason").filter(|reason| !reason.is_null()).map(crate::model::python::text),
        };
        Self::new(&id, reason.as_deref(), metadata)
    }

    /// Returns the request as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
