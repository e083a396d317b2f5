//! The process that has a log open, as error messages name it.

/// A process that has a log open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The program's file name.
    pub program: String,
    /// The time at which the process opened the log, UTC.
    pub started: String,
}
