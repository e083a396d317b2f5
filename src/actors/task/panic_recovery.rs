//! An operation of a task's actor under panics: of a host's store or clock, or of our own code. The actor lives on: it
//! reads its task again, has what may have been lost reported, and goes on with the task's open work. If that panics
//! too, those who wait for the task are told.

use std::panic::resume_unwind;
use std::sync::Arc;

use proto_events::call::CallStatus;
use proto_events::id::StreamId;
use tracing::Instrument;

use crate::actors::shared::durable_reply::DurableReply;
use crate::actors::shared::messages::{Cause, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::stream_reads::reading_here;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::actors::task::operation_driver::{Driven, OperationDriver, OperationPanic};
use crate::error::Error;
use crate::run::child_wait::waiting;
use crate::tools::panics::caught_in;

/// An operation and its cause.
pub(crate) struct AttendedOperation {
    pub(crate) op: TaskOp,
    pub(crate) cause: Cause,
    /// Whether a caller waits for the answer.
    pub(crate) is_awaited: bool,
    /// Whether the actor goes on with the task after a panic.
    pub(crate) goes_on: bool,
    /// The reply that may be sent by the store's thread.
    pub(crate) reply: Option<DurableReply>,
}

/// The end of an operation.
pub(crate) struct Done {
    /// The task, unless it must be read again.
    pub(crate) core: Option<Box<TaskCore>>,
    pub(crate) answer: Result<(), Error>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) has_panicked: bool,
    /// The reply, if it was not sent.
    pub(crate) reply: Option<DurableReply>,
}

impl Done {
    /// Returns the end of an operation on this task.
    pub(crate) fn new(shared: &Shared, driven: Driven) -> Self {
        let Driven { mut core, answer, reply } = driven;
        let effects = core.finish_operation(shared, &answer);
        let core = Some(core).filter(|core| !core.is_broken());
        Self { core, answer, effects, has_panicked: false, reply }
    }

    fn without_core(error: Error, has_panicked: bool) -> Self {
        Self { core: None, answer: Err(error), effects: Vec::new(), has_panicked, reply: None }
    }
}

/// Carries out an operation on a task that must be read first, or that is too large for the actors' thread. A caller whose
/// command panicked gets an error; a command of the system's own is followed by what the log says is open.
pub(crate) async fn carry_out(
    shared: Arc<Shared>,
    core: Option<Box<TaskCore>>,
    stream: StreamId,
    operation: AttendedOperation,
) -> Done {
    let AttendedOperation { op, cause, is_awaited, goes_on, mut reply } = operation;
    let may_be_sent = reply.is_some();
    let done = match caught_in(try_once(&shared, core, &stream, op, cause, &mut reply)).await {
        Ok(done) => done,
        Err(panic) => {
            // A caller that was answered before the panic does not wait.
            let is_awaited = if may_be_sent { reply.is_some() } else { is_awaited };
            after_panic(shared, stream, panic, is_awaited, goes_on).await
        }
    };
    Done { reply, ..done }
}

/// Goes on with a task whose operation panicked.
pub(crate) async fn after_panic(
    shared: Arc<Shared>,
    stream: StreamId,
    panic: String,
    is_awaited: bool,
    goes_on: bool,
) -> Done {
    tracing::error!(%stream, panic, "an actor panicked; its task is read from the log again");
    let error = Error::Internal(format!("a command on {stream} panicked: {panic}"));
    if !goes_on {
        return Done::without_core(error, true);
    }
    let resumed = caught_in(async {
        let cause = Cause::from_system(format_args!("resume:{}", shared.store.fence().epoch), "restart");
        try_once(&shared, None, &stream, TaskOp::Resume, cause, &mut None).await
    });
    match resumed.await {
        Ok(resumed) => {
            let answer = if is_awaited { Err(error) } else { resumed.answer };
            Done { answer, has_panicked: true, ..resumed }
        }
        Err(_) => Done::without_core(error, true),
    }
}

/// Carries an operation out, and leaves the reply that was not sent.
async fn try_once(
    shared: &Arc<Shared>,
    core: Option<Box<TaskCore>>,
    stream: &StreamId,
    op: TaskOp,
    cause: Cause,
    reply: &mut Option<DurableReply>,
) -> Done {
    let known = core.is_some();
    let recovered = match core {
        Some(core) => Ok(core),
        None => TaskCore::recover(shared, stream.clone()).await,
    };
    let mut core = match recovered {
        Ok(core) => core,
        Err(error) => return Done::without_core(error, false),
    };
    let calls = if known { Vec::new() } else { in_flight(&core, shared.store.fence().epoch) };
    core.note_size(&op, known);
    let driven = if core.takes_long(shared) && !shared.under_test {
        elsewhere(shared, core, op, cause).await
    } else {
        let output = core.start_operation(shared, op, cause);
        OperationDriver::new(Arc::clone(shared), core, output).with_reply(reply.take()).await
    };
    let mut done = match driven {
        Ok(mut driven) => {
            *reply = driven.reply.take().or_else(|| reply.take());
            Done::new(shared, driven)
        }
        Err(OperationPanic { text, reply: unsent }) => {
            *reply = unsent.or_else(|| reply.take());
            resume_unwind(Box::new(text))
        }
    };
    if !calls.is_empty() {
        done.effects.push(Effect::FindLost { calls });
    }
    if !known && let Some(core) = &done.core {
        let waiting = waiting(core.task());
        let looks = waiting.map(|(call, child)| (call.request.call_id.clone(), child));
        done.effects.extend(looks.map(|(call_id, child)| Effect::LookAtChild { call_id, child }));
    }
    done
}

/// Carries out an operation on the runtime for calls, on a thread for work that blocks: reading large texts there keeps
/// no other task waiting. A panic, and the end of that runtime, are resumed here as panics.
async fn elsewhere(
    shared: &Arc<Shared>,
    mut core: Box<TaskCore>,
    op: TaskOp,
    cause: Cause,
) -> Result<Driven, OperationPanic> {
    let (parts, span) = (Arc::clone(shared), tracing::Span::current());
    let work = async move {
        let output = core.start_operation(&parts, op, cause);
        OperationDriver::new(parts, core, output).await
    };
    let (calls, work) = (shared.calls.clone(), work.instrument(span));
    let done = shared.calls.spawn_blocking(move || reading_here(|| calls.block_on(work))).await;
    done.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(error) => resume_unwind(Box::new(format!("the runtime for calls: {error}"))),
    })
}

/// Returns the calls that were sent in this epoch and have no outcome. An actor finds such calls when it reads its task
/// only if the one before it broke.
fn in_flight(core: &TaskCore, epoch: u64) -> Vec<(String, u32)> {
    let open = core.task().calls().open();
    let sent = open.filter(|call| call.status == CallStatus::Dispatched && call.epoch == epoch);
    sent.map(|call| (call.request.call_id.clone(), call.attempts)).collect()
}
