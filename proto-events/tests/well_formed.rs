//! Promise 6 in a task that keeps its model's messages itself: an answer comes before the next message there too.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::task::{Task, TaskCommand, TaskEvent, TaskRejection};
use proto_events::turn::{IllFormed, TurnMessage};

fn said(asks: &[&str], answers: Option<&str>) -> TurnMessage {
    let message = LlmMessage {
        role: LlmRole::User,
        content: "said".to_owned(),
        name: None,
        metadata: JsonObject::new(),
        id: "m".to_owned(),
        created_at: String::new(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    };
    let asks = asks.iter().map(|ask| (*ask).to_owned()).collect();
    TurnMessage { message, part: 0, infer_call: None, asks, answers: answers.map(str::to_owned) }
}

fn working() -> Vec<TaskEvent> {
    let posted = PostedTask {
        id: "t".to_owned(),
        state: TaskState::Submitted,
        messages: Vec::new(),
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
        filled_in: Vec::new(),
        source: None,
    };
    let begun = TaskEvent::state_changed(TaskState::Submitted, TaskState::Working);
    vec![TaskEvent::Submitted(Box::new(posted)), begun]
}

#[test]
fn in_a_task_without_a_conversation_an_answer_comes_before_the_next_message_too() {
    let append = |message: TurnMessage| TaskCommand::AppendInferMessage(message);
    let ill = |error| TaskRejection::IllFormed(error);
    let asked = || Scenario::<Task>::given(working()).when(append(said(&["c", "d"], None))).and();
    let unanswered = |call: &str| ill(IllFormed::Unanswered(call.to_owned()));
    for early in [said(&[], None), said(&["e"], None), said(&[], Some("d")), said(&[], Some("e"))] {
        asked().when(append(early)).then_rejected(&unanswered("c"));
    }
    let half = || asked().when(append(said(&[], Some("c")))).and();
    half().when(append(said(&[], None))).then_rejected(&unanswered("d"));
    let whole = || half().when(append(said(&[], Some("d")))).and();
    let again = ill(IllFormed::NotAsked("d".to_owned()));
    whole().when(append(said(&[], Some("d")))).then_rejected(&again);
    whole().when(append(said(&[], None))).then([TaskEvent::InferMessageAppended(said(&[], None))]);
}
