//! `attention`: everything that waits for somebody or is wrong.

use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::sled::{DiskSpace, disk_space, is_held};
use taskreel_log::views::{Attention, AttentionRow, LogUse, attention as needs};

use crate::args::Global;
use crate::args::inspect::AttentionArgs;
use crate::look::open_log::OpenLog;
use crate::print;
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::Screen;

/// The free space under which a disk counts as nearly full, in bytes; a smaller disk, under a twentieth of its size.
const FREE_BYTES_MIN: u64 = 1 << 30;

pub(crate) fn attention(
    args: &AttentionArgs,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let condition = args.only.over("taskreel.attention/1")?;
    OpenLog::show(&args.from, global, |log| {
        let used = match log {
            OpenLog::File { .. } => LogUse::Exported,
            OpenLog::Server { .. } => LogUse::Open,
            OpenLog::Dir { dir, .. } if is_held(dir) => LogUse::Open,
            OpenLog::Dir { .. } => LogUse::Closed,
        };
        let mut found = needs(log.reader(), used, SystemClock.now())?;
        if let OpenLog::Dir { dir, log } = log {
            found.rows.extend(log.poisoned().map(|why| poisoned(&dir.display().to_string(), &why)));
            found
                .rows
                .extend(disk_space(dir).and_then(|space| nearly_full(&dir.display().to_string(), space)));
        }
        if let OpenLog::Server { log, .. } = log {
            found.rows.extend(log.about().poisoned.as_deref().map(|why| poisoned(log.url(), why)));
            found.rows.extend(log.about().disk.and_then(|space| nearly_full(log.url(), space)));
        }
        if screen.json {
            for row in &mut found.rows {
                row.commands = row.commands.iter().map(|command| log.arguments_to_decide(command)).collect();
            }
        }
        found
            .rows
            .retain(|row| condition.as_ref().is_none_or(|condition| condition.holds(&row.to_json().tree())));
        let typed = |command: &str| log.typed_to_decide(command);
        print::attention(&found, &typed, screen)
    })
}

/// Returns the row of a program whose log, in a directory or behind a server, takes no more appends.
fn poisoned(place: &str, why: &str) -> AttentionRow {
    AttentionRow::new(
        Attention::Poisoned,
        format!("the program that has {place} open takes no more work, since a write failed: {why}"),
        "make the disk writable again; then have the program reopen its log, or stop it and start it again",
    )
}

fn nearly_full(place: &str, space: DiskSpace) -> Option<AttentionRow> {
    let least = FREE_BYTES_MIN.min(space.total / 20);
    let mib = |bytes: u64| bytes >> 20;
    (space.free < least).then(|| {
        let (free, all) = (mib(space.free), mib(space.total));
        let what = format!("the disk of {place} has {free} MiB free of {all} MiB");
        AttentionRow::new(
            Attention::Disk,
            what,
            "free some space: a program that cannot append refuses all work",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_nearly_full_under_a_gigabyte_or_a_twentieth() {
        let row = |free, total| nearly_full("d", DiskSpace { free, total });
        let gib = 1_u64 << 30;
        assert!(row(2 * gib, 1_000 * gib).is_none());
        assert!(row(gib - 1, 1_000 * gib).is_some_and(|row| row.what.contains("1023 MiB free")));
        assert!(row(gib / 2, gib).is_none() && row(gib / 21, gib).is_some());
    }
}
