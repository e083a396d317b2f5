//! A host's tool is called by the host's own tests, with a context that they make.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use serde::Deserialize;
use taskreel::JsonSchema;
use taskreel::handler::Answer;
use taskreel::tool::{ToolContext, ToolContextParts, ToolError};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn look(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    match cx.ask("Where?").await {
        Ok(place) => Ok(format!("looked at {place}")),
        Err(error) if error.type_name() == "Declined" => Ok(format!("looked nowhere: {error}")),
        Err(error) => Err(error),
    }
}

#[tokio::test]
async fn a_tool_under_test_is_given_answers_by_its_context() {
    let question = |text: &str, answer| taskreel::handler::CallQuestion { question: text.into(), answer };
    let cx = |questions| ToolContext::new(ToolContextParts { questions, ..ToolContextParts::default() });
    let known = vec![question("Where?", Some(Answer::Given("Oslo".into())))];
    assert_eq!(look(cx(known), Nothing {}).await.unwrap(), "looked at Oslo");
    let open = look(cx(Vec::new()), Nothing {}).await.unwrap_err();
    assert_eq!(open.type_name(), "WaitsForAnswer");
    let long = "x".repeat(taskreel::limits::QUESTION_BYTES_MAX + 1);
    assert_eq!(cx(Vec::new()).ask(&long).await.unwrap_err().type_name(), "QuestionTooLong");
}
