//! Loading the index kept in the directory. An index that does not match the log is rebuilt from it; the log
//! is never refused because of its index.

use std::iter;

use ::sled::Tree;

use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::index::Index;
use crate::engine::index::load::{Loader, ParsedBlock, Parser};
use crate::engine::keys::{Key, parse, value_key};
use crate::engine::reading::located_records;
use crate::engine::slot::{Slot, tag};
use crate::sled::fence::fenced;
use crate::sled::fetch::{Together, ahead};

/// Name of the tree with the sorted blocks of the index. Logs on disk have this name.
pub(crate) const BLOCKS_TREE: &str = "runs";

/// Key of the watermark in the tree `meta`.
pub(crate) const WATERMARK: &str = "index";

/// The number of blocks that are loaded without another thread: those of some ten thousand records.
const BLOCKS_ALONE: usize = 4;

/// The reason why an index was rebuilt that nothing was wrong with, as far as anyone knew.
pub(crate) const REQUESTED: &str = "as requested";

/// The kept index.
pub(crate) struct KeptIndex {
    pub(crate) index: Index,
    pub(crate) mark: Watermark,
    pub(crate) builder: BlockBuilder,
    /// The epoch of its last records.
    pub(crate) epoch: u64,
}

/// Loads the kept index; `None` if there is none, and an error if it cannot be used.
pub(crate) fn load(meta: &Tree, blocks: &Tree, log: &Tree) -> Result<Option<KeptIndex>, String> {
    let Some(mark) = meta.get(WATERMARK).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let mark = std::str::from_utf8(&mark).ok().and_then(Watermark::parse);
    let mark = mark.ok_or("its watermark is damaged")?;
    let index = load_blocks(blocks, &mark)?;
    let ends = (mark.blocks, index.next_ordinal(), index.head(), index.records() as u64);
    if ends != (mark.blocks, mark.values, mark.head.position, mark.head.frontier.size()) {
        return Err("it does not end where its watermark says".to_owned());
    }
    let epoch = check_end(&index, log)?;
    let builder = BlockBuilder::after(&mark);
    Ok(Some(KeptIndex { index, mark, builder, epoch }))
}

/// Loads the blocks that a watermark covers. If they are many, a thread of their own fetches them and takes them apart ahead of
/// this one.
fn load_blocks(blocks: &Tree, mark: &Watermark) -> Result<Index, String> {
    let mut parser = Parser::default();
    let mut loader = Loader::of(&parser);
    let (mut items, mut next) = (blocks.range(value_key(mark.first)..value_key(mark.blocks)), mark.first);
    let mut ended = false;
    let mut next_parsed = move || {
        loop {
            let found = fenced(|| items.next())?.transpose().map_err(|error| error.to_string())?;
            match found.map(|(key, block)| (parse(&key), block)) {
                Some((Some(Key::Spacer(_)), _)) => {}
                Some((Some(Key::Value(ordinal)), block)) if ordinal == next => {
                    next += 1;
                    let wrong = |why| format!("sorted block {ordinal}: {why}");
                    return parser.parse(&block).map(Some).map_err(wrong);
                }
                None if next == mark.blocks => return Ok(None),
                _ => return Err(format!("sorted block {next} is missing")),
            }
        }
    };
    let parsed = iter::from_fn(move || {
        let parsed = if ended { None } else { next_parsed().transpose() };
        ended = !matches!(parsed, Some(Ok(_)));
        parsed
    });
    let mut enter = |parsed: Result<ParsedBlock, String>| loader.enter(&parsed?);
    ahead(parsed, Together { alone: BLOCKS_ALONE, at_once: 1 }, &mut enter)?;
    loader.finish()
}

/// Discards the kept index. Its blocks stay: sled moves other pages when it removes entries.
pub(crate) fn forget(meta: &Tree) -> Result<(), ::sled::Error> {
    meta.remove(WATERMARK).map(drop)
}

/// Returns the first ordinal after all sorted blocks.
pub(crate) fn next_block(blocks: &Tree) -> Result<u64, ::sled::Error> {
    for item in blocks.iter().rev() {
        if let Some(Key::Value(ordinal)) = parse(&item?.0) {
            return Ok(ordinal.saturating_add(1));
        }
    }
    Ok(0)
}

/// Checks that the last record in the index is at its slot in the log. Returns its epoch.
fn check_end(index: &Index, log: &Tree) -> Result<u64, String> {
    let Some((ordinal, slot)) = index.last() else { return Ok(0) };
    let gone = || format!("it ends at value {ordinal}, which the log does not have");
    let value = log.get(value_key(ordinal)).map_err(|error| error.to_string())?.ok_or_else(gone)?;
    let (mut last, mut epoch) = (None, 0);
    for located in located_records(&value, ordinal).map_err(|error| error.to_string())? {
        let located = located.map_err(|error| error.to_string())?;
        epoch = epoch.max(located.view.epoch);
        last = Some((
            Slot { offset: located.entry.offset, ..slot },
            located.last_position(),
            located.view.stream.to_owned(),
            located.entry.hash,
        ));
    }
    let same = last.is_some_and(|(last_slot, position, stream, hash)| {
        last_slot == slot && position == index.head() && index.end_of(&stream).tag == tag(hash)
    });
    if same { Ok(epoch) } else { Err(format!("it differs from the log at value {ordinal}")) }
}
