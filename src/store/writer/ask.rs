//! Asking the writer: the one way from a caller to it, and what is said when it cannot answer.

use std::sync::Arc;

use crate::store::sync::{mpsc, oneshot};
use crate::store::{Append, AppendError, AppendFuture, Appended, check};

use super::{Job, Shared};

/// Hands an append to the writer. The place in its queue is taken now; where there is none, once there is.
pub(in crate::store) fn ask(shared: &Arc<Shared>, queue: &mpsc::Sender<Job>, append: Append) -> AppendFuture {
    if let Err(error) = check::agrees(&append) {
        return Box::pin(std::future::ready(Err(error)));
    }
    let (reply, answer) = oneshot::channel();
    let job = Job { append, reply };
    let shared = Arc::clone(shared);
    match queue.try_send(job) {
        Ok(()) => Box::pin(await_answer(shared, answer)),
        Err(mpsc::error::TrySendError::Closed(_)) => Box::pin(std::future::ready(Err(shared.refusal()))),
        Err(mpsc::error::TrySendError::Full(job)) => {
            let queue = queue.clone();
            Box::pin(async move {
                queue.send(job).await.map_err(|_| shared.refusal())?;
                await_answer(shared, answer).await
            })
        }
    }
}

async fn await_answer(
    shared: Arc<Shared>,
    answer: oneshot::Receiver<Result<Appended, AppendError>>,
) -> Result<Appended, AppendError> {
    answer.await.unwrap_or_else(|_| {
        let why = shared.poisoned.get();
        Err(AppendError::Ambiguous {
            why: why.map_or_else(|| "the writer ended without an answer".to_owned(), Clone::clone),
        })
    })
}
