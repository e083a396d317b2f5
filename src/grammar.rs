//! The grammar of a model's reply: [`decode`] finds the JSON, [`repair`], [`shorthand`] and [`literal`]
//! accept deviating forms, [`action`] reads the action, and [`json_errors`] words errors as Python does.
//! Pure; above [`python`](crate::python) only.

pub(crate) mod action;
pub(crate) mod answer_text;
pub(crate) mod decode;
pub(crate) mod json_errors;
pub(crate) mod literal;
pub(crate) mod repair;
pub(crate) mod reply_text;
pub(crate) mod shorthand;
pub(crate) mod text_call;
