//! The memory that this process may use, from which the cache of the database takes its share.

use std::fs;

/// The smallest cache, and that where the size of the memory is unknown (64 MiB). After a flush that failed, sled can read what
/// was not written only while it is in the cache, and a log that takes no more appends is to answer reads: with a small cache
/// that is less likely.
pub(crate) const CACHE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// The cache of a private copy, from which a log is read that nobody writes (8 MiB).
pub(crate) const CACHE_BYTES_LOOK: u64 = 8 * 1024 * 1024;

/// The largest default of the cache (128 MiB): a program that runs for long fills all of it.
const MOST: u64 = 128 * 1024 * 1024;

/// The share of the memory that the cache may take by default: an eighth.
const SHARE: u64 = 8;

/// Returns the default size of the database's cache: an eighth of the memory that this process may use, between 64 MiB
/// and 128 MiB. It is filled as the log is read: a small log fills little of it.
pub(crate) fn default_cache_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    // A container's own limit; a machine without one has the word `max` there.
    let limit =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    share_of(machine.into_iter().chain(limit).min())
}

fn share_of(memory: Option<u64>) -> u64 {
    memory.map_or(CACHE_BYTES_MIN, |memory| (memory / SHARE).clamp(CACHE_BYTES_MIN, MOST))
}

/// Returns the machine's memory in bytes from the text of `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_an_eighth_of_the_memory_within_its_bounds() {
        let gib = 1 << 30;
        let cases = [(None, CACHE_BYTES_MIN), (Some(0), CACHE_BYTES_MIN), (Some(gib * 3 / 4), gib * 3 / 32)];
        for (memory, cache) in cases.into_iter().chain([(Some(gib), MOST), (Some(u64::MAX), MOST)]) {
            assert_eq!(share_of(memory), cache, "{memory:?}");
        }
    }

    #[test]
    fn the_memory_is_read_from_the_kernels_text_and_other_text_is_none() {
        assert_eq!(total("MemTotal:       24652340 kB\nMemFree:  1 kB\n"), Some(24_652_340 * 1024));
        for text in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 5", "MemFree: 5 kB"] {
            assert_eq!(total(text), None, "{text}");
        }
        assert_eq!(total("MemTotal: 18446744073709551615 kB"), None);
    }
}
