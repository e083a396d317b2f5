//! Questions of a call to a person: the answers that an attempt is given, and the question with which it ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use proto_events::call::{Answer, CallQuestion};

use crate::limits::QUESTION_BYTES_MAX;
use crate::tools::error::ToolError;
use crate::tools::secret::Mask;

/// The questions of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// The secret values of the call, which no question repeats.
    mask: Mask,
    /// The number of questions that the attempt has reached.
    reached: AtomicUsize,
    /// The first question without an answer.
    open: Mutex<Option<String>>,
}

impl Asking {
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
            Some(CallQuestion { answer: Some(Answer::Given(answer)), .. }) => Ok(answer.clone()),
            Some(CallQuestion { answer: Some(Answer::Declined(why)), .. }) => {
                let text = if why.is_empty() { "a person declined to answer" } else { why };
                Err(ToolError::failed(text).with_type("Declined").final_())
            }
            Some(CallQuestion { answer: None, .. }) | None => {
                let text = format!("waits for a person's answer: {question}");
                self.open.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(question);
                Err(ToolError::failed(text).with_type("WaitsForAnswer").final_())
            }
        }
    }

    /// Returns the question with which the attempt ends, if it has reached one without an answer.
    pub(crate) fn open_question(&self) -> Option<String> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
