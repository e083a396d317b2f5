//! Loading the index that is kept in the directory. Whatever does not fit is reason to build it anew from the log; it
//! is never reason to refuse the log.

use ::sled::Tree;

use crate::store::index::{Index, Slot, tag};
use crate::store::keys::{Key, parse, value_key};
use crate::store::reading::walk;
use crate::store::runs::{self, RunBuilder, Watermark};

/// Key of the watermark in the tree `meta`.
pub(super) const WATERMARK: &str = "index";

/// The index as it was kept.
pub(super) struct Kept {
    pub(super) index: Index,
    pub(super) mark: Watermark,
    pub(super) builder: RunBuilder,
}

/// Loads what is kept of the index; `None` if nothing is, and why it cannot be used, if it cannot.
pub(super) fn load(meta: &Tree, runs: &Tree, log: &Tree) -> Result<Option<Kept>, String> {
    let Some(mark) = meta.get(WATERMARK).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let mark = std::str::from_utf8(&mark).ok().and_then(Watermark::parse);
    let mark = mark.ok_or("its watermark is not what was written")?;
    let mut index = Index::default();
    let mut next = mark.first;
    for item in runs.range(value_key(mark.first)..value_key(mark.runs)) {
        let (key, run) = item.map_err(|error| error.to_string())?;
        match parse(&key) {
            Some(Key::Spacer(_)) => {}
            Some(Key::Value(ordinal)) if ordinal == next => {
                runs::load(&mut index, &run).map_err(|why| format!("run {ordinal}: {why}"))?;
                next += 1;
            }
            _ => return Err(format!("run {next} is missing")),
        }
    }
    let ends = (next, index.next_ordinal(), index.head(), index.records() as u64);
    if ends != (mark.runs, mark.values, mark.head.position, mark.head.frontier.size()) {
        return Err("it does not go as far as its watermark".to_owned());
    }
    agrees_at_its_end(&index, log)?;
    let builder = RunBuilder::behind(&mark);
    Ok(Some(Kept { index, mark, builder }))
}

/// Gives up what is kept. Its runs stay: what the database is told to remove, it moves other pages for.
pub(super) fn forget(meta: &Tree) -> Result<(), ::sled::Error> {
    meta.remove(WATERMARK).map(drop)
}

/// The first ordinal that no run has.
pub(super) fn next_run(runs: &Tree) -> Result<u64, ::sled::Error> {
    for item in runs.iter().rev() {
        if let Some(Key::Value(ordinal)) = parse(&item?.0) {
            return Ok(ordinal.saturating_add(1));
        }
    }
    Ok(0)
}

/// Whether the last record that the index knows is where it says.
fn agrees_at_its_end(index: &Index, log: &Tree) -> Result<(), String> {
    let Some((ordinal, slot)) = index.last() else { return Ok(()) };
    let gone = || format!("the log has no value {ordinal}, where it ends");
    let value = log.get(value_key(ordinal)).map_err(|error| error.to_string())?.ok_or_else(gone)?;
    let mut last = None;
    for located in walk(&value, ordinal).map_err(|error| error.to_string())? {
        let located = located.map_err(|error| error.to_string())?;
        last = Some((
            Slot { offset: located.entry.offset, ..slot },
            located.last_position(),
            located.view.stream.to_owned(),
            located.entry.hash,
        ));
    }
    let agrees = last.is_some_and(|(at, position, stream, hash)| {
        at == slot && position == index.head() && index.end_of(&stream).tag == tag(hash)
    });
    if agrees { Ok(()) } else { Err(format!("it does not agree with the log at value {ordinal}")) }
}
