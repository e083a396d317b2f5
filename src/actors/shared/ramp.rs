//! The ramp by which open work is resumed after a start: a bounded number of tasks at once, each of which makes place for
//! the next when it comes to rest, or after a while. New commands come between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto_events::id::StreamId;
use taskreel_log::ports::Clock;
use tokio::sync::{Semaphore, oneshot};

use crate::actors::shared::messages::{Cause, TaskOp, ToTask};
use crate::actors::shared::route::Route;
use crate::actors::shared::sleep::sleep_on;
use crate::error::Error;
use crate::limits::RESUMED_FOR;

/// Open work to be resumed, in this order.
pub(crate) struct Ramp {
    pub(crate) open: Vec<StreamId>,
    /// The number of tasks that are resumed at once.
    pub(crate) at_once: usize,
    pub(crate) epoch: u64,
    pub(crate) to_task: Route<Box<ToTask>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Set once the system takes no new work: what is left is resumed at the next start.
    pub(crate) stopping: Arc<AtomicBool>,
}

impl Ramp {
    /// Resumes the tasks until the last was sent on its way, or the actors end.
    pub(crate) async fn run(mut self) {
        let open = std::mem::take(&mut self.open);
        let places = Arc::new(Semaphore::new(self.at_once.clamp(1, Semaphore::MAX_PERMITS)));
        let are_bounded = open.len() > self.at_once;
        let ramp = Arc::new(self);
        for stream in open {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            if ramp.stopping.load(Ordering::Acquire) {
                return;
            }
            let cause = Cause::from_system(format_args!("resume:{}", ramp.epoch), "start");
            ramp.to_task.do_send(Box::new(ToTask {
                stream: stream.clone(),
                op: TaskOp::Resume,
                cause,
                reply: None,
            }));
            if are_bounded {
                let ramp = Arc::clone(&ramp);
                actix_rt::spawn(async move {
                    ramp.at_rest(stream).await;
                    drop(place);
                });
            }
        }
    }

    /// Waits until the task was resumed, and then until it is at rest, for a while.
    async fn at_rest(&self, stream: StreamId) {
        if self.check_request(stream.clone(), TaskOp::Look).await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            _ = self.check_request(stream, TaskOp::AwaitEnd) => {}
            () = sleep_on(&self.clock, RESUMED_FOR) => {}
        }
    }

    async fn check_request(&self, stream: StreamId, op: TaskOp) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.to_task.do_send(Box::new(ToTask { stream, op, cause: Cause::default(), reply: Some(reply) }));
        answer.await.map_err(|_| Error::Stopped)?.map(drop).map_err(|not_done| not_done.error)
    }
}
