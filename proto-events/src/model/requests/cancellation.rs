//! The request to cancel a task.

use serde::Serialize;

use crate::json::{JsonObject, JsonText};
use crate::model::ModelError;
use crate::model::fields::Fields;

/// The wish that a task be canceled. A reason stands in the metadata too, which is all that goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskCancellationRequest {
    /// The task's id.
    pub id: String,
    /// Why, if somebody said.
    #[serde(skip)]
    pub reason: Option<String>,
    /// Whatever belongs to the request, its reason included.
    pub metadata: JsonObject,
}

impl TaskCancellationRequest {
    /// A request; a reason joins the metadata unless they have one.
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

    /// Reads a request; the id may be called `task_id`, the reason may stand in the metadata only.
    ///
    /// # Errors
    /// [`ModelError`] if the id is blank or the metadata no object.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
        let metadata = fields.object("metadata")?;
        let id = fields.coerced_truthy("id").or_else(|| fields.coerced_truthy("task_id")).unwrap_or_default();
        let reason = match fields.get("reason") {
            Some(_) => fields.coerced("reason"),
            None => metadata.get("reason").filter(|reason| !reason.is_null()).map(crate::model::python::text),
        };
        Self::new(&id, reason.as_deref(), metadata)
    }

    /// The request as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
