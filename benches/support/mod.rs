//! Shared by all benches: the output of their rows, their work, the yardsticks.
#![allow(dead_code, reason = "no bench uses all of it")]

pub(crate) mod bare;
pub(crate) mod lives;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod raw;
mod report;

#[allow(unused_imports, reason = "no bench uses all of it")]
pub(crate) use report::{
    Asked, Failure, Report, Row, Target, median, number, percentile, rate, scratch, setting, wanted,
};
