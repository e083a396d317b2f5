//! The result of a crash matrix: the counts of what it met, or the faults that it found.

use std::fmt;

use crate::testing::judge::row::Cells;

/// The counts of a crash matrix that found no fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// The number of appends of the workload.
    pub appends: usize,
    /// The number of cuts: one after each append but the last, or fewer, see
    /// [`CrashMatrix::cuts_at_most`](crate::testing::matrix::CrashMatrix::cuts_at_most).
    pub cuts: usize,
    /// The number of executions of tools, including those after restarts.
    pub executions: usize,
    /// The cells of R7's table that were reached, with counts.
    pub cells: Cells,
}

/// The faults found, and the cut that led to them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The number of appends before the cut; `None` for a fault without a crash.
    pub cut: Option<usize>,
    /// Descriptions of the faults.
    pub faults: Vec<String>,
    /// The log at the end, one event per line.
    pub log: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut {
            None => writeln!(f, "without a crash:")?,
            Some(cut) => writeln!(f, "cut after append {cut}:")?,
        }
        for fault in &self.faults {
            writeln!(f, "  {fault}")?;
        }
        writeln!(f, "the log:")?;
        self.log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for Broken {}

impl CrashReport {
    /// Adds the counts of another report.
    pub fn merge(&mut self, other: &Self) {
        self.appends += other.appends;
        self.cuts += other.cuts;
        self.add(&other.cells, other.executions);
    }

    pub(crate) fn add(&mut self, cells: &Cells, executions: usize) {
        self.executions += executions;
        for (cell, times) in cells {
            *self.cells.entry(*cell).or_default() += times;
        }
    }
}
