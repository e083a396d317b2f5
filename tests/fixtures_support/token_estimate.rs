//! Area `token_estimate`: the estimated number of tokens in a value.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel_log::context::estimate_tokens;

use super::{Case, Failure};

#[allow(clippy::unnecessary_wraps, reason = "the runner's signature")]
pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    Ok(json!({"tokens": estimate_tokens(&case.input()["value"])}))
}
