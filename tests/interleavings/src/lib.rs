//! The store's own source, built once more with locks, channels and tasks that `shuttle` schedules: it runs a test many
//! times, each time with another order of what threads do, and finds a deadlock by itself. The tests stand beside what
//! they are about: `src/store/writer/interleaved.rs`, and here for what is a model.
//!
//! What is real: the writer, its groups and answers, the way to it (`writer::ask`), what readers and writer share, the
//! index, subscriptions. What is not: sled (values are kept in a map), tokio's channels (`modelled` has small ones that
//! do what tokio's say they do), time (a timer has always just run out), and actix, which no scheduler of ours can
//! drive: how the supervisor hands a stream from one actor to the next is a model.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "most of this source is the library's, and only a part of it is used here"
)]

#[path = "../../../src/limits.rs"]
pub mod limits;
mod modelled;
#[cfg(test)]
mod passivation;
#[path = "../../../src/ports.rs"]
pub mod ports;
#[path = "../../../src/store/mod.rs"]
pub mod store;
#[cfg(test)]
mod trying;
