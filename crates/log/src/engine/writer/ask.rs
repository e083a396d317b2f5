//! Sending appends to the writer: the only way from a caller to it, and the error when it cannot reply.

use std::sync::Arc;

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::check;
use crate::api::error::AppendError;
use crate::api::reply_sink::AppendToken;
use crate::engine::writer::shared::{AppendReply, Job, Shared};
use crate::sync::mpsc::error::TrySendError;
use crate::sync::{SemaphorePermit, TryAcquireError, mpsc, oneshot};

/// Sends an append to the writer. Its place in the queue is taken now, or once there is room.
pub(crate) fn ask(shared: &Arc<Shared>, queue: &mpsc::Sender<Job>, append: Append) -> AppendFuture {
    if let Err(error) = check::check_append(&append) {
        return Box::pin(std::future::ready(Err(error)));
    }
    let (reply, result) = oneshot::channel();
    let job = Job { append, reply: AppendReply::Caller(reply) };
    let shared = Arc::clone(shared);
    match try_put(&shared, queue, job) {
        Ok(()) => Box::pin(await_result(shared, result)),
        Err(TrySendError::Closed(_)) => Box::pin(std::future::ready(Err(shared.refusal()))),
        Err(TrySendError::Full(job)) => {
            let queue = queue.clone();
            Box::pin(async move {
                put_once_there_is_room(&shared, &queue, job).await?;
                await_result(shared, result).await
            })
        }
    }
}

/// Sends an append to the writer, which answers at the token's reply sink. Where that is not possible now, the token is
/// withdrawn and the append sent as [`ask`] does.
pub(crate) fn ask_with(
    shared: &Arc<Shared>,
    queue: &mpsc::Sender<Job>,
    append: Append,
    token: AppendToken,
) -> Option<AppendFuture> {
    if let Err(error) = check::check_append(&append) {
        token.withdraw();
        return Some(Box::pin(std::future::ready(Err(error))));
    }
    let refused = try_put(shared, queue, Job { append, reply: AppendReply::Sink(token) }).err()?;
    let (TrySendError::Closed(job) | TrySendError::Full(job)) = refused;
    let Job { append, reply } = job;
    if let AppendReply::Sink(token) = reply {
        token.withdraw();
    }
    Some(ask(shared, queue, append))
}

/// Puts a job in the queue, if there is room now.
fn try_put(shared: &Shared, queue: &mpsc::Sender<Job>, job: Job) -> Result<(), TrySendError<Job>> {
    match shared.room.try_acquire() {
        Ok(place) => send_job(place, queue, job),
        Err(TryAcquireError::NoPermits) => Err(TrySendError::Full(job)),
        Err(TryAcquireError::Closed) => Err(TrySendError::Closed(job)),
    }
}

/// Puts a job in the queue in its turn, or returns why the writer takes no more.
async fn put_once_there_is_room(
    shared: &Shared,
    queue: &mpsc::Sender<Job>,
    job: Job,
) -> Result<(), AppendError> {
    let place = shared.room.acquire().await.map_err(|_| shared.refusal())?;
    send_job(place, queue, job).map_err(|_| shared.refusal())
}

/// Puts a job in its place of the queue.
fn send_job(
    place: SemaphorePermit<'_>,
    queue: &mpsc::Sender<Job>,
    job: Job,
) -> Result<(), TrySendError<Job>> {
    queue.try_send(job)?;
    // The writer gives the place back when it takes the job.
    place.forget();
    Ok(())
}

async fn await_result(
    shared: Arc<Shared>,
    result: oneshot::Receiver<Result<Appended, AppendError>>,
) -> Result<Appended, AppendError> {
    result.await.unwrap_or_else(|_| {
        let why = shared.poisoned.get();
        Err(AppendError::Ambiguous {
            why: why.map_or_else(|| "the writer ended before it replied".to_owned(), Clone::clone),
        })
    })
}
