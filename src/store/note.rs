//! What opening a log met and did that its owner should know of, without it being a reason to refuse.

use std::fmt;
use std::path::PathBuf;

use proto_events::id::Position;

use super::Holder;

/// One thing to know about a log that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenNote {
    /// The process before did not close it. Nothing is damaged; nothing proves either that it ended here.
    NotClosed {
        /// Who had it, if that could be read.
        holder: Option<Holder>,
        /// The last position that `HEAD` speaks for.
        proven: Position,
        /// The last position in the log.
        end: Position,
    },
    /// The log ended in a write that was not whole, as a crash leaves it. What stood there is kept.
    TailSetAside {
        /// Bytes that were set aside.
        bytes: u64,
        /// Where they are: each file is named after its place in `db`.
        kept: PathBuf,
    },
    /// One of the database's own files was damaged, and was made anew from the log.
    FileSetAside {
        /// Its name.
        file: String,
        /// What was wrong with it.
        why: &'static str,
        /// Where it is now.
        kept: PathBuf,
    },
    /// The index that was kept beside the log did not fit it, and was built anew.
    IndexRebuilt {
        /// What was wrong with it.
        why: String,
    },
}

impl fmt::Display for OpenNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotClosed { holder, proven, end } => {
                write!(f, "the log was not closed")?;
                if let Some(holder) = holder {
                    write!(f, " by process {} ({})", holder.pid, holder.program)?;
                }
                write!(
                    f,
                    "; it ends at position {end}, and HEAD proves that it went to {proven}: whether more was cut off cannot be told"
                )
            }
            Self::TailSetAside { bytes, kept } => write!(
                f,
                "the log ended in a write that was not whole, as a crash leaves it; {bytes} bytes were cut off and are kept in {}",
                kept.display()
            ),
            Self::FileSetAside { file, why, kept } => write!(
                f,
                "{file} {why}; it was moved to {}, and what it held was made anew from the log",
                kept.display()
            ),
            Self::IndexRebuilt { why } => write!(f, "the index was built anew from the log ({why})"),
        }
    }
}
