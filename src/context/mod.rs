//! What a model is shown, measured: floor 2, pure functions over messages.

pub mod tokens;
