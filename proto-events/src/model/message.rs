//! Messages of a person or an agent: a role and parts.

use serde::Serialize;

use crate::id::Mint;
use crate::json::JsonText;
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::part::Part;

/// A message of a person or an agent. An id, role or time that was posted as null stays null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The id, usually `msg_…`.
    pub id: Option<String>,
    /// The role: `user`, `agent`, `assistant`, `system`, or any other posted text.
    pub role: Option<String>,
    /// The content, in order.
    pub parts: Vec<Part>,
    /// The time of creation, as uninterpreted text.
    pub timestamp: Option<String>,
}

impl Message {
    /// Returns a new message.
    pub fn new(role: &str, parts: Vec<Part>, mint: &mut dyn Mint) -> Self {
        Self {
            id: Some(mint.id("msg_")),
            role: Some(role.to_owned()),
            parts,
            timestamp: Some(mint.timestamp()),
        }
    }

    /// Returns a text of a user.
    pub fn user(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("user", vec![Part::text(text)], mint)
    }

    /// Returns a text of an agent.
    pub fn agent(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("agent", vec![Part::text(text)], mint)
    }

    /// Returns a text of a model.
    pub fn assistant(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("assistant", vec![Part::text(text)], mint)
    }

    /// Returns a user's prompt for the model.
    pub fn infer(prompt: &str, mint: &mut dyn Mint) -> Self {
        Self::new("user", vec![Part::infer(prompt)], mint)
    }

    /// Returns a user's request for a tool call.
    ///
    /// # Errors
    /// [`ModelError::Json`] if the arguments have no JSON form or nest too deep.
    pub fn tool_call(tool_name: &str, args: impl Serialize, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let call = Part::tool_call(tool_name, args)?.hydrated(mint)?;
        Ok(Self::new("user", vec![call], mint))
    }

    /// Returns an agent's choice of the next step.
    pub fn route(route_key: &str, mint: &mut dyn Mint) -> Self {
        Self::new("agent", vec![Part::route(route_key)], mint)
    }

    /// Reads a message; an absent id, role (`user`) or time is filled in.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong field or part.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        Ok(Self {
            id: fields.nullable_or("id", || mint.id("msg_"))?,
            role: fields.nullable_or("role", || "user".to_owned())?,
            parts: fields.models("parts", |part| Part::from_json(part, mint))?,
            timestamp: fields.nullable_or("timestamp", || mint.timestamp())?,
        })
    }

    /// Returns the message as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
