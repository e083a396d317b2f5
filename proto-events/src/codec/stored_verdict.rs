//! The verdicts and answers of persons as call events keep them: a code and a text.

use crate::call::outcome::{Answer, Verdict};
use crate::codec::error::FieldError;
use crate::codec::stored_model::json;

/// An answer as events keep it.
pub(super) fn answer_of(answer: Answer) -> (u8, String) {
    match answer {
        Answer::Given(text) => (0, text),
        Answer::Declined(reason) => (1, reason),
    }
}

pub(super) fn read_answer(code: u8, says: String) -> Result<Answer, FieldError> {
    match code {
        0 => Ok(Answer::Given(says)),
        1 => Ok(Answer::Declined(says)),
        other => Err(FieldError::Code(other)),
    }
}

/// A verdict as events keep it.
pub(super) fn verdict_of(verdict: &Verdict) -> (u8, String) {
    match verdict {
        Verdict::Landed(result) => (0, result.as_str().to_owned()),
        Verdict::DidNotHappen => (1, String::new()),
        Verdict::Inconclusive(why) => (2, why.clone()),
    }
}

pub(super) fn read_verdict(code: u8, says: String) -> Result<Verdict, FieldError> {
    match code {
        0 => Ok(Verdict::Landed(json(&says)?)),
        1 => Ok(Verdict::DidNotHappen),
        2 => Ok(Verdict::Inconclusive(says)),
        other => Err(FieldError::Code(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonText;

    #[test]
    fn every_answer_comes_back_from_its_code_and_no_other_code_is_read() {
        for answer in [Answer::Given("yes".to_owned()), Answer::Declined("away".to_owned())] {
            let (code, says) = answer_of(answer.clone());
            assert_eq!(read_answer(code, says).unwrap(), answer);
        }
        for code in 2..=u8::MAX {
            assert!(matches!(read_answer(code, String::new()), Err(FieldError::Code(_))));
        }
    }

    #[test]
    fn every_verdict_comes_back_from_its_code_and_no_other_code_is_read() {
        let all = [
            Verdict::Landed(JsonText::empty_object()),
            Verdict::DidNotHappen,
            Verdict::Inconclusive("closed".to_owned()),
        ];
        for verdict in all {
            let (code, says) = verdict_of(&verdict);
            assert_eq!(read_verdict(code, says).unwrap(), verdict);
        }
        for code in 3..=u8::MAX {
            assert!(matches!(read_verdict(code, "{}".to_owned()), Err(FieldError::Code(_))));
        }
    }
}
