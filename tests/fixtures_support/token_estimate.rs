//! Area `token_estimate`: how many tokens a value is.

use serde_json::{Value, json};
use taskreel::context::tokens::estimate;

use super::{Case, Failure};

#[allow(clippy::unnecessary_wraps, reason = "the runner's signature")]
pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    Ok(json!({"tokens": estimate(&case.input()["value"])}))
}
