//! A token: the place at which the answer to an append is expected, so that a store can answer a whole group at once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::api::append::Appended;
use crate::api::error::AppendError;

/// The answers to some appends, each with the number of its token.
pub type Answers = Vec<(u64, Result<Appended, AppendError>)>;

/// A place where the answers to many appends are awaited.
pub trait ReplySink: Send + Sync {
    /// Takes the answers to some appends. It is called on the store's own thread, and must not wait for anything; it may wake
    /// those who wait. A panic ends the store's thread.
    fn answer(&self, answers: Answers);
}

/// The place at which the answer to one append is expected. A token that is dropped without an answer says that the outcome
/// of its append is unknown.
pub struct AppendToken {
    sink: Option<Arc<dyn ReplySink>>,
    number: u64,
}

impl AppendToken {
    /// Returns the token of this number at a reply sink.
    pub fn new(sink: Arc<dyn ReplySink>, number: u64) -> Self {
        Self { sink: Some(sink), number }
    }

    /// Gives the token back unused: its reply sink hears nothing of it.
    pub fn withdraw(mut self) {
        self.sink = None;
    }
}

impl fmt::Debug for AppendToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for AppendToken {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let why = "the writer ended before it replied".to_owned();
            sink.answer(vec![(self.number, Err(AppendError::Ambiguous { why }))]);
        }
    }
}

/// The answers of one group, collected for each reply sink: what a store hands over once the group is durable.
#[derive(Default)]
pub struct AnswersBySink(Vec<(Arc<dyn ReplySink>, Answers)>);

impl fmt::Debug for AnswersBySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswersBySink").field("sinks", &self.0.len()).finish_non_exhaustive()
    }
}

impl Drop for AnswersBySink {
    fn drop(&mut self) {
        let mut panicked = None;
        for (sink, answers) in std::mem::take(&mut self.0) {
            // The other reply sinks get their answers whatever one of them does.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| sink.answer(answers))) {
                panicked.get_or_insert(panic);
            }
        }
        if let Some(panic) = panicked
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl AnswersBySink {
    /// Adds the answer to the append of a token.
    pub fn add(&mut self, mut token: AppendToken, answer: Result<Appended, AppendError>) {
        let Some(sink) = token.sink.take() else { return };
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &sink)) {
            Some((_, answers)) => answers.push((token.number, answer)),
            None => self.0.push((sink, vec![(token.number, answer)])),
        }
    }

    /// Hands all answers over; so does dropping them.
    pub fn hand_over(self) {
        drop(self);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A reply sink that notes the numbers of its answers, or panics.
    #[derive(Default)]
    struct Noting {
        panics: bool,
        numbers: Mutex<Vec<u64>>,
    }

    impl ReplySink for Noting {
        fn answer(&self, answers: Answers) {
            assert!(!self.panics, "no reply sink");
            self.numbers.lock().unwrap().extend(answers.iter().map(|(number, _)| *number));
        }
    }

    #[test]
    fn a_sink_that_panics_takes_no_answer_from_the_others() {
        let broken = Arc::new(Noting { panics: true, ..Noting::default() });
        let sinks = [Arc::new(Noting::default()), broken, Arc::new(Noting::default())];
        let mut answers = AnswersBySink::default();
        for (sink, number) in sinks.iter().zip(7..) {
            let sink: Arc<dyn ReplySink> = Arc::<Noting>::clone(sink);
            answers.add(AppendToken::new(sink, number), Ok(Appended { parts: Vec::new() }));
        }
        assert!(
            catch_unwind(AssertUnwindSafe(|| answers.hand_over())).is_err(),
            "the store hears of the panic"
        );
        let heard = sinks.map(|sink| sink.numbers.lock().unwrap().clone());
        assert_eq!(heard, [vec![7], vec![], vec![9]]);
    }
}
