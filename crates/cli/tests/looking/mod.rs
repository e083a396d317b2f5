//! Tests of the commands that select, find and draw, on each source of a log.

mod conditions;
mod cut_files;
mod drawings;
mod pager;
mod points;
mod report;
mod search;

use std::process::Stdio;

use crate::binary::{Place, Ran};

/// Runs the binary with these words as its arguments.
pub(crate) fn ran(place: &Place, words: &[&str]) -> Ran {
    Ran(place.command(words).stdin(Stdio::null()).output().unwrap())
}
