//! The rules of a session whose history is cleared, compacted or summed up: during a turn, beside another of its kind, and
//! with calls whose answers follow them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proto_events::decider::Decider as _;
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{CompactionStrategy, LlmMessage, LlmRole};
use proto_events::session::{
    Compaction, EMPTY_SUMMARY, SUPERSEDED, Session, SessionCommand, SessionEvent, SessionRejection,
    SummaryRequested,
};
use proto_events::turn::TurnMessage;

fn message(role: LlmRole, content: &str) -> LlmMessage {
    LlmMessage {
        role,
        content: content.to_owned(),
        name: None,
        metadata: JsonObject::new(),
        id: content.to_owned(),
        created_at: "2024-01-01T00:00:00+00:00".to_owned(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    }
}

fn said(role: LlmRole, content: &str) -> TurnMessage {
    let message = message(role, content);
    TurnMessage { message, part: 0, infer_call: None, asks: Vec::new(), answers: None }
}

struct Conversation(Session);

impl Conversation {
    fn new() -> Self {
        Self(Session::default())
    }

    fn does(&mut self, command: SessionCommand) -> Result<Vec<SessionEvent>, SessionRejection> {
        let events = self.0.decide(command)?;
        for event in &events {
            self.0.evolve(event, &Metadata::default());
        }
        Ok(events)
    }

    fn start(&mut self, turn_id: &str) {
        self.start_with(turn_id, "be brief");
    }

    fn start_with(&mut self, turn_id: &str, prompt: &str) {
        let (session_id, task) = ("s".to_owned(), "task-a/t".to_owned());
        let (turn_id, system_prompt) = (turn_id.to_owned(), message(LlmRole::System, prompt));
        self.does(SessionCommand::StartTurn { session_id, turn_id, task, system_prompt }).unwrap();
    }

    fn says(&mut self, turn_id: &str, message: TurnMessage) {
        self.does(SessionCommand::AppendMessage { turn_id: turn_id.to_owned(), message }).unwrap();
    }

    fn commit(&mut self, turn_id: &str) {
        self.does(SessionCommand::CommitTurn { turn_id: turn_id.to_owned() }).unwrap();
    }

    /// A turn of four messages: a question, a call, its answer, the last word.
    fn turn(&mut self, turn_id: &str) {
        self.start(turn_id);
        self.says(turn_id, said(LlmRole::User, &format!("{turn_id} question")));
        let asks = vec![format!("{turn_id}-call")];
        self.says(turn_id, TurnMessage { asks, ..said(LlmRole::Assistant, &format!("{turn_id} call")) });
        let answers = Some(format!("{turn_id}-call"));
        self.says(turn_id, TurnMessage { answers, ..said(LlmRole::System, &format!("{turn_id} result")) });
        self.says(turn_id, said(LlmRole::Assistant, &format!("{turn_id} done")));
        self.commit(turn_id);
    }

    fn texts(&self) -> Vec<&str> {
        self.0.history().as_slice().iter().map(|message| message.content.as_str()).collect()
    }
}

fn compact(removed: u32) -> SessionCommand {
    SessionCommand::Compact(Compaction {
        strategy: CompactionStrategy::Recent,
        read_through: Version(9),
        removed,
        before_tokens: 10,
        after_tokens: 5,
    })
}

fn request(call_id: &str, messages: u32) -> SessionCommand {
    SessionCommand::RequestSummary(Box::new(SummaryRequested {
        call_id: call_id.to_owned(),
        target: "scripted".to_owned(),
        read_through: Version(9),
        messages,
        max_tokens: 64,
        digest: Digest([1; 32]),
    }))
}

fn receive(call_id: &str, summary: Option<&str>) -> SessionCommand {
    SessionCommand::ReceiveSummary {
        call_id: call_id.to_owned(),
        reply: JsonText::string("They met."),
        usage: None,
        summary: summary.map(|text| message(LlmRole::System, text)),
        tokens: (10, 5),
    }
}

/// Returns the reason for which the first event says that a summary was dropped.
fn dropped(events: &[SessionEvent]) -> Option<&str> {
    match events.first() {
        Some(SessionEvent::SummaryReceived { dropped, .. }) => dropped.as_deref(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_compaction_removes_the_oldest_messages_and_never_one_half_of_a_call() {
    let mut conversation = Conversation::new();
    conversation.turn("a");
    conversation.turn("b");
    assert!((0..8).filter(|place| conversation.0.is_answer(*place)).eq([2, 6]));
    assert_eq!(conversation.does(compact(2)), Err(SessionRejection::PartsCall(2)));
    assert_eq!(conversation.does(compact(9)), Err(SessionRejection::TooFewMessages { removed: 9, there: 8 }));
    assert_eq!(conversation.does(compact(0)), Ok(Vec::new()), "nothing is removed, nothing is written");
    conversation.does(compact(3)).unwrap();
    assert_eq!(conversation.texts(), ["be brief", "a done", "b question", "b call", "b result", "b done"]);
    assert!(
        (0..5).filter(|place| conversation.0.is_answer(*place)).eq([3]),
        "the places of answers move too"
    );
    assert_eq!(conversation.does(compact(3)), Err(SessionRejection::PartsCall(3)));
    assert_eq!(conversation.0.rewrites(), 1);
}

#[test]
fn a_turn_that_is_open_while_its_history_is_cleared_adds_nothing_to_it() {
    let mut conversation = Conversation::new();
    conversation.turn("a");
    conversation.start("b");
    conversation.says("b", said(LlmRole::User, "lost"));
    assert_eq!(conversation.does(SessionCommand::Clear), Ok(vec![SessionEvent::Cleared { messages: 5 }]));
    assert_eq!(conversation.does(SessionCommand::Clear), Ok(Vec::new()), "it is cleared once");
    let open = conversation.0.open_turn().unwrap();
    assert_eq!(open.system_prompt.as_ref().unwrap().content, "be brief", "the turn keeps its prompt");
    conversation.commit("b");
    assert_eq!(conversation.texts(), Vec::<&str>::new());
    conversation.turn("c");
    assert_eq!(conversation.texts(), ["be brief", "c question", "c call", "c result", "c done"]);
    assert!(conversation.0.is_answer(2));
}

#[test]
fn a_turn_that_is_open_while_its_history_is_compacted_is_folded_behind_what_is_left() {
    let mut conversation = Conversation::new();
    conversation.turn("a");
    conversation.start("b");
    conversation.says("b", said(LlmRole::User, "kept"));
    conversation.does(compact(4)).unwrap();
    conversation.commit("b");
    assert_eq!(conversation.texts(), ["be brief", "kept"]);
}

#[test]
fn a_summary_stands_in_the_place_of_what_it_sums_up_whatever_was_added_since() {
    let mut conversation = Conversation::new();
    conversation.turn("a");
    conversation.does(request("s1", 3)).unwrap();
    conversation.turn("b");
    let events = conversation.does(receive("s1", Some("summary"))).unwrap();
    assert_eq!((dropped(&events), events.len()), (None, 2));
    assert_eq!(conversation.texts()[..3], ["be brief", "summary", "a done"]);
    assert!((0..6).filter(|place| conversation.0.is_answer(*place)).eq([4]));
    let again = conversation.does(receive("s1", Some("summary")));
    assert_eq!(again, Err(SessionRejection::NoSuchSummary("s1".to_owned())), "a call has one outcome");
}

#[test]
fn a_summary_that_returns_after_the_history_was_rewritten_is_dropped_and_recorded() {
    for rewrite in [SessionCommand::Clear, compact(4)] {
        let mut conversation = Conversation::new();
        conversation.turn("a");
        conversation.does(request("s1", 3)).unwrap();
        conversation.does(rewrite).unwrap();
        let before: Vec<String> = conversation.texts().into_iter().map(str::to_owned).collect();
        let events = conversation.does(receive("s1", Some("summary"))).unwrap();
        assert_eq!((dropped(&events), events.len()), (Some(SUPERSEDED), 1));
        assert_eq!(conversation.texts(), before);
        assert!(conversation.0.open_summary().is_none());
    }
}

#[test]
fn a_summary_takes_the_place_of_one_that_has_not_returned_and_an_empty_one_changes_nothing() {
    let mut conversation = Conversation::new();
    conversation.turn("a");
    conversation.does(request("s1", 3)).unwrap();
    let events = conversation.does(request("s2", 4)).unwrap();
    assert!(matches!(&events[0], SessionEvent::SummaryFailed { call_id, .. } if call_id == "s1"));
    assert_eq!(
        conversation.does(receive("s1", Some("x"))),
        Err(SessionRejection::NoSuchSummary("s1".into()))
    );
    let events = conversation.does(receive("s2", None)).unwrap();
    assert_eq!(dropped(&events), Some(EMPTY_SUMMARY));
    assert_eq!(conversation.texts().len(), 5);
    assert_eq!(conversation.does(request("s3", 2)), Err(SessionRejection::PartsCall(2)));
    conversation.does(request("s4", 4)).unwrap();
    let fail = |call_id: &str| SessionCommand::FailSummary {
        call_id: call_id.to_owned(),
        error_type: "TimeoutError".to_owned(),
        message: "no answer".to_owned(),
        usage: None,
    };
    conversation.does(fail("s4")).unwrap();
    assert_eq!(conversation.does(fail("s4")), Err(SessionRejection::NoSuchSummary("s4".into())));
}

#[test]
fn a_session_is_opened_with_its_prompt_once_and_only_without_a_history() {
    let mut conversation = Conversation::new();
    assert_eq!(conversation.does(compact(0)), Err(SessionRejection::NotOpened));
    assert_eq!(conversation.does(SessionCommand::Clear), Ok(Vec::new()));
    let open = || SessionCommand::Open {
        session_id: "s".to_owned(),
        system_prompt: message(LlmRole::System, "be brief"),
    };
    assert_eq!(conversation.does(open()).unwrap().len(), 2);
    assert_eq!(conversation.does(open()), Ok(Vec::new()));
    conversation.does(SessionCommand::Clear).unwrap();
    assert_eq!(conversation.does(open()).unwrap().len(), 1, "it was opened before");
    assert_eq!(conversation.texts(), ["be brief"]);
}

#[test]
fn a_summary_that_stands_first_is_no_system_prompt_and_is_not_replaced_by_one() {
    let mut conversation = Conversation::new();
    // Without a system prompt: such a conversation is taken in from elsewhere.
    conversation.start_with("a", "");
    for (role, text) in [(LlmRole::User, "question"), (LlmRole::Assistant, "answer"), (LlmRole::User, "and?")]
    {
        conversation.says("a", said(role, text));
    }
    conversation.commit("a");
    assert_eq!(conversation.0.leading(), None);
    conversation.does(request("c", 2)).unwrap();
    conversation.does(receive("c", Some("They met."))).unwrap();
    assert_eq!(conversation.texts(), ["They met.", "and?"]);
    assert_eq!((conversation.0.leading(), conversation.0.body().len()), (None, 2));
    conversation.start("b");
    conversation.says("b", said(LlmRole::User, "more"));
    assert_eq!(conversation.0.body().len(), 2, "the summary is shown during the turn");
    conversation.commit("b");
    assert_eq!(conversation.texts(), ["be brief", "They met.", "and?", "more"]);
    assert_eq!(conversation.0.leading().map(|leading| leading.content.as_str()), Some("be brief"));
    let cleared = conversation.does(SessionCommand::Clear).unwrap();
    assert!(matches!(cleared[..], [SessionEvent::Cleared { messages: 4 }]), "{cleared:?}");
    assert_eq!((conversation.0.leading(), conversation.0.rewritten_at()), (None, Version(14)));
}
