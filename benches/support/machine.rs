//! Figures of the machine about this process: bytes written, disk and processor used; and dropping of cached
//! files.

use std::path::Path;
use std::time::Duration;

use super::Failure;

/// Returns the bytes that this process has had written to disks so far, as the kernel counts them.
pub(crate) fn bytes_written() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("/proc/self/io does not count written bytes here")?.trim().parse()?)
}

/// Returns this thread's processor time so far, without time lost to other processes.
pub(crate) fn cpu() -> Result<Duration, Failure> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split_whitespace().next().ok_or("the kernel does not tell this thread's time")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// Returns the bytes that the files below a directory take on the disk.
pub(crate) fn disk_used(dir: &Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_used(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

/// Makes the kernel drop cached files, so that the next read comes from the disk. Returns whether it was
/// allowed: only root is.
pub(crate) fn forget_files() -> bool {
    let synced = std::process::Command::new("sync").status().is_ok_and(|status| status.success());
    synced && std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}
