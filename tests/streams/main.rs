//! Streams of a task's events, as a subscriber sees them.

mod live;
mod live_actions;
mod live_runs;
mod live_support;
mod stream_fidelity;
