//! An operation of a task under way: each step is carried out as soon as what the last one needed is there. It is a future
//! written by hand, since each command has one: what it holds between two steps is all that it takes in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use proto_events::id::StreamId;
use proto_events::task::Task;
use taskreel_log::api::Append;
use tokio::sync::oneshot;

use crate::actors::entity::Entity;
use crate::actors::seed::Seed;
use crate::actors::shared::append::{PendingAppend, is_resolved};
use crate::actors::shared::durable_reply::DurableReply;
use crate::actors::shared::parts::Shared;
use crate::actors::shared::turns::AcquireTurn;
use crate::actors::task::core::TaskCore;
use crate::actors::task::step::{Input, Need, Output, ReadAgain};
use crate::error::Error;
use crate::tools::panics::caught;

/// The invariant of [`OperationDriver`].
const OVER: &str = "an operation that is over, or of which a step panicked, is not polled again";

/// An operation from one of its steps on, until it is over.
pub(crate) struct OperationDriver {
    shared: Arc<Shared>,
    /// The task, until the operation is over.
    core: Option<Box<TaskCore>>,
    /// The end of its last step, until it is looked at.
    output: Option<Output>,
    awaited: Option<AwaitedAnswer>,
    /// The set id of the append that waits for its answer.
    in_doubt: Option<[u8; 16]>,
    /// The reply that may be sent by the store's thread.
    reply: Option<DurableReply>,
}

/// The end of an operation.
pub(crate) struct Driven {
    pub(crate) core: Box<TaskCore>,
    pub(crate) answer: Result<(), Error>,
    /// The reply, if it was not sent.
    pub(crate) reply: Option<DurableReply>,
}

/// The end of an operation by a panic.
pub(crate) struct OperationPanic {
    pub(crate) text: String,
    /// The reply, if it was not sent.
    pub(crate) reply: Option<DurableReply>,
}

/// The thing for which an operation waits.
enum AwaitedAnswer {
    /// The answer to an append.
    Append(PendingAppend),
    /// An answer that is rarely needed.
    Need(Pin<Box<dyn Future<Output = Input> + Send>>),
}

impl OperationDriver {
    /// Returns the operation on this task whose last step ended so.
    pub(crate) fn new(shared: Arc<Shared>, core: Box<TaskCore>, output: Output) -> Self {
        let (core, output) = (Some(core), Some(output));
        Self { shared, core, output, awaited: None, in_doubt: None, reply: None }
    }

    /// Has a reply sent as soon as the append that is its answer is durable.
    pub(crate) fn with_reply(mut self, reply: Option<DurableReply>) -> Self {
        self.reply = reply;
        self
    }

    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<Driven> {
        loop {
            match self.output.take() {
                None => {}
                Some(Output::Append(append)) => self.append(append),
                Some(Output::Need(need)) => self.ask(need),
                Some(Output::Done(answer)) => {
                    let (core, reply) = (self.core.take().expect(OVER), self.reply.take());
                    return Poll::Ready(Driven { core, answer, reply });
                }
            }
            let input = match self.awaited.as_mut().expect(OVER) {
                AwaitedAnswer::Append(appending) => {
                    let answer = ready!(appending.poll_answer(&self.shared, cx));
                    self.reply = self.reply.take().or_else(|| appending.take_reply());
                    if is_resolved(&answer) {
                        self.in_doubt = None;
                    } else {
                        self.note_unresolved();
                    }
                    Input::Appended(answer)
                }
                AwaitedAnswer::Need(answer) => ready!(answer.as_mut().poll(cx)),
            };
            self.awaited = None;
            self.output = Some(self.core.as_mut().expect(OVER).resume(&self.shared, input));
        }
    }

    /// Hands an append over. If its end is the answer, the reply is sent once it is durable.
    fn append(&mut self, append: Append) {
        // Known before the store is called, which may panic.
        self.in_doubt = Some(append.set_id);
        let appending = PendingAppend::start(&self.shared, append);
        if self.core.as_ref().expect(OVER).is_answered_by_append(&self.shared) {
            self.reply = self.reply.take().and_then(|reply| appending.send_when_durable(reply));
        }
        self.awaited = Some(AwaitedAnswer::Append(appending));
    }

    /// Asks for what a step needs.
    fn ask(&mut self, need: Need) {
        let stream = self.core.as_ref().expect(OVER).entity.stream().clone();
        self.awaited = Some(AwaitedAnswer::Need(Box::pin(answer_to(Arc::clone(&self.shared), stream, need))));
    }

    /// Takes the reply back, if it was not sent.
    fn take_reply(&mut self) -> Option<DurableReply> {
        self.reply.take().or_else(|| match &mut self.awaited {
            Some(AwaitedAnswer::Append(appending)) => appending.take_reply(),
            _ => None,
        })
    }

    /// Notes that it is not known whether the append is in the log.
    fn note_unresolved(&mut self) {
        if let (Some(set_id), Some(core)) = (self.in_doubt.take(), &self.core) {
            self.shared.unresolved.insert(set_id, core.command_id());
        }
    }
}

/// The operation carried out, or the panic that ended it.
impl Future for OperationDriver {
    type Output = Result<Driven, OperationPanic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match caught(|| this.go_on(cx)) {
            Ok(driven) => driven.map(Ok),
            Err(text) => Poll::Ready(Err(OperationPanic { text, reply: this.take_reply() })),
        }
    }
}

impl Drop for OperationDriver {
    /// An actor that ends before the answer to its append notes that.
    fn drop(&mut self) {
        self.note_unresolved();
    }
}

/// Gets what a step needs that is not an append.
async fn answer_to(shared: Arc<Shared>, stream: StreamId, need: Need) -> Input {
    let store = &shared.store;
    match need {
        Need::Read { task, session } => {
            let read = async {
                let task = match task {
                    Some(stream) => Some(Entity::recover(store, stream, Seed::draw(&shared.ports)).await?),
                    None => None,
                };
                let session = match session {
                    Some(stream) => Some(Entity::recover(store, stream, Seed::draw(&shared.ports)).await?),
                    None => None,
                };
                Ok(Box::new(ReadAgain { task, session }))
            };
            Input::Read(read.await)
        }
        Need::Hold { tool } => Input::Held(shared.tool_stores.lock(&tool).await),
        Need::Keep(replaced) => Input::Kept(shared.secrets.store_values(&stream, replaced).await),
        Need::Turn { session, turn_id } => {
            let (reply, granted) = oneshot::channel();
            let task = stream;
            shared.acquire.do_send(AcquireTurn { session, task, turn_id, at_once: true, reply });
            // An answer that does not come means that the turn is not free, or that the session's actor has stopped.
            Input::Turn(granted.await.ok().and_then(Result::ok).map(Box::new))
        }
        Need::Search { command_id, content } => {
            Input::Found(Entity::<Task>::search(store, &stream, &command_id, &content).await)
        }
    }
}
