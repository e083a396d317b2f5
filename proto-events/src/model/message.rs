//! What a person or an agent says: a role and the parts.

use serde::Serialize;

use crate::id::Mint;
use crate::json::JsonText;
use crate::model::fields::Fields;
use crate::model::{ModelError, Part};

/// What a person or an agent says. An id, role or time that was posted as null stays null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Its id, usually `msg_…`.
    pub id: Option<String>,
    /// Who says it: `user`, `agent`, `assistant`, `system`, or whatever was posted.
    pub role: Option<String>,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// When, as text that is not looked into.
    pub timestamp: Option<String>,
}

impl Message {
    /// A new message.
    pub fn new(role: &str, parts: Vec<Part>, mint: &mut dyn Mint) -> Self {
        Self {
            id: Some(mint.id("msg_")),
            role: Some(role.to_owned()),
            parts,
            timestamp: Some(mint.timestamp()),
        }
    }

    /// A user's text.
    pub fn user(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("user", vec![Part::text(text)], mint)
    }

    /// An agent's text.
    pub fn agent(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("agent", vec![Part::text(text)], mint)
    }

    /// A model's text.
    pub fn assistant(text: &str, mint: &mut dyn Mint) -> Self {
        Self::new("assistant", vec![Part::text(text)], mint)
    }

    /// A user's question to the model.
    pub fn infer(prompt: &str, mint: &mut dyn Mint) -> Self {
        Self::new("user", vec![Part::infer(prompt)], mint)
    }

    /// A user's wish that a tool be called.
    ///
    /// # Errors
    /// [`ModelError::Json`] if the arguments have no JSON form or nest too deep.
    pub fn tool_call(tool_name: &str, args: impl Serialize, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let call = Part::tool_call(tool_name, args)?.hydrated(mint)?;
        Ok(Self::new("user", vec![call], mint))
    }

    /// An agent's choice of where to go next.
    pub fn route(route_key: &str, mint: &mut dyn Mint) -> Self {
        Self::new("agent", vec![Part::route(route_key)], mint)
    }

    /// Reads a message; id, role (`user`) and time that are absent are filled in.
    ///
    /// # Errors
    /// [`ModelError`], naming the field or part that is wrong.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
        Ok(Self {
            id: fields.nullable_or("id", || mint.id("msg_"))?,
            role: fields.nullable_or("role", || "user".to_owned())?,
            parts: fields.models("parts", |part| Part::from_json(part, mint))?,
            timestamp: fields.nullable_or("timestamp", || mint.timestamp())?,
        })
    }

    /// The message as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
