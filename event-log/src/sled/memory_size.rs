//! The size of the database's cache: that of the log, as far as the memory that this process may use allows.

use std::fs;

/// The smallest default of the cache (4 MiB), also for a new log, however large it becomes while it is open. What is
/// written goes through the cache once, and a larger one is filled with it; the operating system keeps it as well.
const LEAST: u64 = 4 << 20;

/// The most that the cache may take where the size of the memory is unknown, or where there is little of it (64 MiB).
const MOST_OF_LITTLE: u64 = 64 << 20;

/// The largest default of the cache (1 GiB): larger ones made nothing faster.
const MOST: u64 = 1 << 30;

/// The share of the memory that the cache may take by default: an eighth.
const SHARE: u64 = 8;

/// Returns the default size of the database's cache for a log that has this many bytes when it is opened: as many, but at
/// least 4 MiB, and at most an eighth of the memory that this process may use, which counts as 64 MiB to 1 GiB.
pub(crate) fn default_cache_bytes(log_bytes: u64) -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    // A container's own limit; a machine without one has the word `max` there.
    let limit =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    log_bytes.clamp(LEAST, share_of(machine.into_iter().chain(limit).min()))
}

fn share_of(memory: Option<u64>) -> u64 {
    memory.map_or(MOST_OF_LITTLE, |memory| (memory / SHARE).clamp(MOST_OF_LITTLE, MOST))
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
    fn the_cache_is_as_large_as_the_log_within_its_bounds() {
        assert_eq!([0, LEAST, LEAST + 1].map(default_cache_bytes), [LEAST, LEAST, LEAST + 1]);
        let most = default_cache_bytes(u64::MAX);
        assert!((MOST_OF_LITTLE..=MOST).contains(&most), "{most}");
        assert_eq!(default_cache_bytes(most - 1), most - 1);
    }

    #[test]
    fn the_cache_takes_at_most_an_eighth_of_the_memory() {
        let gib = 1 << 30;
        let cases =
            [(None, MOST_OF_LITTLE), (Some(0), MOST_OF_LITTLE), (Some(gib), gib / 8), (Some(8 * gib), gib)];
        for (memory, cache) in cases.into_iter().chain([(Some(u64::MAX), gib)]) {
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
