//! The real a2a-utils beside ours.
