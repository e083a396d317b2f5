//! Errors of exported logs, and of those that are damaged.

use std::path::Path;

use taskreel_log::jsonl::ExportError;

use crate::print::problem::{EXIT_LOG, EXIT_UNKNOWN, Problem};

impl Problem {
    /// A file that cannot be read as an exported log.
    pub(crate) fn export(error: &ExportError, file: &Path) -> Self {
        let (code, hint) = match error {
            ExportError::Io { missing: true, .. } => (
                EXIT_UNKNOWN,
                "give a file written by `taskreel export`; `import` also accepts `-` for stdin",
            ),
            ExportError::NotAnExport { .. } => (EXIT_LOG, "`taskreel export > FILE` writes one"),
            ExportError::OtherFormat { .. } => (EXIT_LOG, "use the release of taskreel that wrote it"),
            ExportError::Damaged(_) | ExportError::Cut { .. } | ExportError::OtherRoot { .. } => {
                (EXIT_LOG, "`taskreel verify --file FILE` lists all faults; export the log again")
            }
            _ => (EXIT_LOG, "check that the file can be read, then run the same command again"),
        };
        Self::new(code, format!("cannot read the export {}", file.display()), error.to_string(), hint)
    }

    /// Returns this problem in a log of which not all can be read: what was not found may stand behind the fault, which is then the
    /// answer.
    pub(crate) fn behind(self, fault: &Self) -> Self {
        if self.code != EXIT_UNKNOWN {
            return self;
        }
        let what =
            format!("{}; what was asked for may stand behind that: {}: {}", fault.what, self.what, self.why);
        Self { what, ..fault.clone() }
    }
}
