//! The router under panics: of a host's clock, of a subscriber of spans, of our own code. A message that panics costs
//! the call that it is about, whose outcome is lost as by a crash; the router and all other calls go on.
//!
//! An actor that has lost sight of calls in flight (one that panicked, and reads its task again) asks with
//! [`FindLost`]; those that the router does not know either are lost.

use actix::{Context, Handler};
use proto_events::id::StreamId;

use crate::actors::router::Router;
use crate::actors::router::watch::Key;
use crate::actors::shared::messages::{AttemptEnd, FindLost};
use crate::actors::shared::within::Within;

impl Router {
    /// Reports the outcome of an attempt as lost, because the code that dealt with it panicked.
    pub(crate) fn lose(&mut self, key: &Key, attempt: u32, target: &str, panic: &str) {
        let (stream, call_id) = key;
        tracing::error!(%stream, call_id, attempt, panic, "the router panicked; the outcome of this attempt is lost");
        self.breakers.abandon_trial(target, &(key.clone(), attempt));
        if let Some(call) = self.in_flight.get(key).filter(|known| known.attempt == attempt) {
            call.cancellation.cancel();
        }
        let why = format!("the router panicked: {panic}");
        self.finish(key, attempt, AttemptEnd::Lost { why }, false, Within::default());
    }

    /// Whether this attempt is in flight.
    fn knows(&self, stream: &StreamId, call_id: &str, attempt: u32) -> bool {
        let key = (stream.clone(), call_id.to_owned());
        self.in_flight.get(&key).is_some_and(|known| known.attempt == attempt)
    }
}

impl Handler<FindLost> for Router {
    type Result = ();

    fn handle(&mut self, message: FindLost, _: &mut Context<Self>) {
        for (call_id, attempt) in message.calls {
            if !self.knows(&message.stream, &call_id, attempt) {
                let why = "its outcome was lost with the actor of its task, which panicked".to_owned();
                let key = (message.stream.clone(), call_id);
                self.finish(&key, attempt, AttemptEnd::Lost { why }, false, Within::default());
            }
        }
    }
}
