//! Secret values beside the log: which of their files no call needs any more, or nobody can read.

use std::path::Path;

use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::read::fold::fold_stream;
use crate::secrets::{KeptValue, SECRETS_DIR, SecretFiles};

/// Whether this user may not look at the files of secret values, which only their owner reads.
pub(crate) fn are_hidden(dir: &Path) -> bool {
    let refused = std::fs::read_dir(dir.join(SECRETS_DIR)).err();
    refused.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Returns what is wrong with the files of secret values, each with advice.
pub(crate) fn faults(dir: &Path, reader: &dyn EventReader) -> Vec<(String, &'static str)> {
    let found = match SecretFiles::of_log(dir).all() {
        Ok(found) => found,
        Err(error) => {
            return vec![(
                error.to_string(),
                "check the permissions of the folder, which only its owner reads",
            )];
        }
    };
    let mut faults = Vec::new();
    for path in found.unreadable {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("{SECRETS_DIR}/{name} is no value that its name fits");
        faults.push((what, "a call or webhook that needs it fails before it is sent; remove the file"));
    }
    for kept in found.kept {
        let path = format!("{SECRETS_DIR}/{}", kept.reference.digest);
        match is_needed(reader, &kept) {
            Ok(true) => {}
            Ok(false) => {
                let what =
                    format!("{path} is a secret of {} that no open call needs, nor a webhook", kept.stream);
                faults.push((what, "the next start of its agent removes it; without one, remove the file"));
            }
            Err(error) => {
                let what = format!("{path}: its task cannot be read: {error}");
                faults.push((what, "keep the file until the task can be read"));
            }
        }
    }
    faults
}

fn is_needed(reader: &dyn EventReader, kept: &KeptValue) -> Result<bool, ReadError> {
    let folded = fold_stream::<Task>(reader, &kept.stream, None)?;
    Ok(folded.state.secrets_needed().contains(&kept.reference))
}
