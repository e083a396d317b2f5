//! A ticket: the place at which the answer to an append is expected, so that a store can answer a whole group at once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::api::append::Appended;
use crate::api::error::AppendError;

/// The answers to some appends, each with the number of its ticket.
pub type Answers = Vec<(u64, Result<Appended, AppendError>)>;

/// A place where the answers to many appends are awaited.
pub trait TicketDesk: Send + Sync {
    /// Takes the answers to some appends. It is called on the store's own thread, and must not wait for anything; it may wake
    /// those who wait. A panic ends the store's thread.
    fn answer(&self, answers: Answers);
}

/// The place at which the answer to one append is expected. A ticket that is dropped without an answer says that the outcome
/// of its append is unknown.
pub struct Ticket {
    desk: Option<Arc<dyn TicketDesk>>,
    number: u64,
}

impl Ticket {
    /// Returns the ticket of this number at a desk.
    pub fn new(desk: Arc<dyn TicketDesk>, number: u64) -> Self {
        Self { desk: Some(desk), number }
    }

    /// Gives the ticket back unused: its desk hears nothing of it.
    pub fn withdraw(mut self) {
        self.desk = None;
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            let why = "the writer ended before it replied".to_owned();
            desk.answer(vec![(self.number, Err(AppendError::Ambiguous { why }))]);
        }
    }
}

/// The answers of one group, collected for each desk: what a store hands over once the group is durable.
#[derive(Default)]
pub struct AnswersByDesk(Vec<(Arc<dyn TicketDesk>, Answers)>);

impl fmt::Debug for AnswersByDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswersByDesk").field("desks", &self.0.len()).finish_non_exhaustive()
    }
}

impl Drop for AnswersByDesk {
    fn drop(&mut self) {
        let mut panicked = None;
        for (desk, answers) in std::mem::take(&mut self.0) {
            // The other desks get their answers whatever one of them does.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| desk.answer(answers))) {
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

impl AnswersByDesk {
    /// Adds the answer to the append of a ticket.
    pub fn add(&mut self, mut ticket: Ticket, answer: Result<Appended, AppendError>) {
        let Some(desk) = ticket.desk.take() else { return };
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &desk)) {
            Some((_, answers)) => answers.push((ticket.number, answer)),
            None => self.0.push((desk, vec![(ticket.number, answer)])),
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

    /// A desk that notes the numbers of its answers, or panics.
    #[derive(Default)]
    struct Noting {
        panics: bool,
        numbers: Mutex<Vec<u64>>,
    }

    impl TicketDesk for Noting {
        fn answer(&self, answers: Answers) {
            assert!(!self.panics, "no desk");
            self.numbers.lock().unwrap().extend(answers.iter().map(|(number, _)| *number));
        }
    }

    #[test]
    fn a_desk_that_panics_takes_no_answer_from_the_others() {
        let broken = Arc::new(Noting { panics: true, ..Noting::default() });
        let desks = [Arc::new(Noting::default()), broken, Arc::new(Noting::default())];
        let mut answers = AnswersByDesk::default();
        for (desk, number) in desks.iter().zip(7..) {
            let desk: Arc<dyn TicketDesk> = Arc::<Noting>::clone(desk);
            answers.add(Ticket::new(desk, number), Ok(Appended { parts: Vec::new() }));
        }
        assert!(
            catch_unwind(AssertUnwindSafe(|| answers.hand_over())).is_err(),
            "the store hears of the panic"
        );
        let heard = desks.map(|desk| desk.numbers.lock().unwrap().clone());
        assert_eq!(heard, [vec![7], vec![], vec![9]]);
    }
}
