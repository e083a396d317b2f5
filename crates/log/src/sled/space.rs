//! The room on the disk of a log.

use std::path::Path;

/// The size of a disk, and the part of it that this user may still write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// The bytes that are free.
    pub free: u64,
    /// The bytes of the file system.
    pub total: u64,
}

/// Returns the room on the disk that holds a folder; `None` where the system does not say.
#[cfg(unix)]
pub fn disk_space(folder: &Path) -> Option<DiskSpace> {
    let found = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(DiskSpace { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
}

/// Returns the room on the disk that holds a folder; `None` where the system does not say.
#[cfg(not(unix))]
pub fn disk_space(_: &Path) -> Option<DiskSpace> {
    None
}
