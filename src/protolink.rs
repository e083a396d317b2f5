//! Protolink's view of a task: [`stream`] turns its events into Protolink's stream events. Above
//! [`run`](crate::run) and [`live`](crate::live), below [`system`](crate::system); it uses no actor.

pub(crate) mod stream;
