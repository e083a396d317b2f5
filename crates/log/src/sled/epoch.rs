//! The tree `meta`: what the log's header says, once more, and the epoch, which each opening raises.

use std::path::Path;

use ::sled::Tree;

use crate::api::error::OpenError;
use crate::api::note::OpenNote;
use crate::sled::database::{damaged, sled_error};
use crate::sled::dir::LogHeader;
use crate::sled::scan::Scan;

/// Returns the fields of the header as the tree `meta` has them.
pub(crate) fn header_fields(header: LogHeader) -> [(&'static str, Vec<u8>); 3] {
    let durability = header.durability.name().as_bytes().to_vec();
    [
        ("format", header.format.to_be_bytes().to_vec()),
        ("durability", durability),
        ("id", header.id.0.to_vec()),
    ]
}

/// Raises the epoch, and writes or compares the other fields of the tree `meta`. Durable with the next flush.
pub(crate) fn raise_epoch(
    (dir, meta): (&Path, &Tree),
    header: LogHeader,
    scan: &Scan,
    notes: &mut Vec<OpenNote>,
) -> Result<u64, OpenError> {
    let empty = scan.index.next_ordinal() == 0;
    let get = |key: &str| meta.get(key).map_err(|error| sled_error(dir, &error));
    let set = |key: &str, value: &[u8]| meta.insert(key, value).map_err(|error| sled_error(dir, &error));
    // A first opening that a power failure cut short may have left only some of them. No append was
    // acknowledged then.
    for (key, value) in header_fields(header) {
        match get(key)? {
            Some(known) if *known == *value => {}
            None if empty => set(key, &value).map(drop)?,
            _ => {
                return Err(damaged(
                    dir,
                    format!("taskreel.format and the database disagree on the log's {key}"),
                ));
            }
        }
    }
    let before = match get("epoch")? {
        None if empty => 0,
        Some(epoch) if epoch.len() == 8 => {
            epoch.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte))
        }
        _ => return Err(damaged(dir, "its epoch is missing")),
    };
    if before < scan.epoch {
        notes.push(OpenNote::EpochBehind { database: before, records: scan.epoch });
    }
    let epoch = before
        .max(scan.epoch)
        .checked_add(1)
        .ok_or_else(|| damaged(dir, "its epoch is the largest possible one"))?;
    set("epoch", &epoch.to_be_bytes())?;
    Ok(epoch)
}
