//! Questions of a call to a person: the answers that an attempt is given, and the question with which it ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use proto_events::call::{Answer, CallQuestion};
use proto_events::json::JsonText;

use crate::limits::QUESTION_BYTES_MAX;
use crate::tools::error::ToolError;
use crate::tools::secret::Mask;

/// The questions of one attempt.
#[derive(Debug, Default)]
pub(crate) struct ToolQuestions {
    /// The secret values of the call, which no question repeats.
    mask: Mask,
    /// The number of questions that the attempt has reached.
    reached: AtomicUsize,
    /// The first question without an answer.
    open: Mutex<Option<String>>,
}

impl ToolQuestions {
    /// Begins an attempt whose questions pass this mask before they are kept, and before they are compared with kept ones.
    pub(crate) fn masked(mask: Mask) -> Self {
        Self { mask, ..Self::default() }
    }

    /// Returns the recorded answer to the attempt's next question. Without one, the attempt is to end, and the
    /// question is kept for its end.
    pub(crate) fn answer(&self, known: &[CallQuestion], question: &str) -> Result<String, ToolError> {
        let question = self.mask.text(question);
        if question.len() > QUESTION_BYTES_MAX {
            let bytes = question.len();
            let text = format!("a question of {bytes} bytes; at most {QUESTION_BYTES_MAX} are asked");
            return Err(ToolError::failed(text).with_type("QuestionTooLong").final_());
        }
        let at = self.reached.fetch_add(1, Ordering::AcqRel);
        match known.get(at) {
            Some(before) if before.question != question => {
                let text = format!(
                    "question {} of the call was `{}` and is now `{question}`: an attempt must ask the same questions \
                     in the same order",
                    at + 1,
                    before.question
                );
                Err(ToolError::failed(text).with_type("QuestionChanged").final_())
            }
            Some(CallQuestion { answer: Some(Answer::Given(answer)), .. }) => Ok(self.mask.in_clear(answer)),
            Some(CallQuestion { answer: Some(Answer::Declined(why)), .. }) => {
                let why = self.mask.in_clear(why);
                let text = if why.is_empty() { "a person declined to answer" } else { &why };
                Err(ToolError::failed(text).with_type("Declined").final_())
            }
            Some(CallQuestion { answer: None, .. }) | None => {
                let text = format!("waits for a person's answer: {question}");
                self.open.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(question);
                Err(ToolError::failed(text).with_type("WaitsForAnswer").final_())
            }
        }
    }

    /// Returns the text without the secret values of the call.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        self.mask.text(text)
    }

    /// Returns the JSON without the secret values of the call.
    pub(crate) fn masked_json(&self, json: JsonText) -> JsonText {
        self.mask.json(json)
    }

    /// Passes over recorded questions that the system asked in the call's name, for an approval: no code of the call asks
    /// them.
    pub(crate) fn pass(&self, known: &[CallQuestion], asked: &[String]) {
        let is_asked = |at: usize| known.get(at).is_some_and(|before| asked.contains(&before.question));
        let mut at = self.reached.load(Ordering::Acquire);
        while is_asked(at) {
            at += 1;
        }
        self.reached.fetch_max(at, Ordering::AcqRel);
    }

    /// Keeps a question of the system for the end of the attempt.
    pub(crate) fn wait_for(&self, question: String) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(question);
    }

    /// Returns the question with which the attempt ends, if it has reached one without an answer.
    pub(crate) fn open_question(&self) -> Option<String> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
