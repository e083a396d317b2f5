//! Verification: reads the log once and reports each fault by stream, version and position, continuing after
//! a piece that cannot be read. Checks that a log alone does not permit are reported as not made.
//!
//! [`verifier`] makes the pass; [`stream`], [`calls`] and [`approvals`] check single streams, [`writes`]
//! single appends, [`head`] and [`ends`] the whole log; [`finding`] and [`report`] are the result.

pub(crate) mod approvals;
pub(crate) mod calls;
pub(crate) mod ends;
pub(crate) mod finding;
pub(crate) mod head;
pub(crate) mod report;
pub(crate) mod stream;
pub(crate) mod verifier;
pub(crate) mod writes;
