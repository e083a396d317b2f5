//! Loading the index kept in the directory. An index that does not match the log is rebuilt from it; the log
//! is never refused because of its index.

use std::iter;
use std::path::Path;
use std::thread::JoinHandle;

use ::sled::Tree;
use proto_events::id::LogId;

use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::index::Index;
use crate::engine::index::image::{self, Image};
use crate::engine::index::load::{BlockParser, Loader, ParsedBlock, enter_after_image};
use crate::engine::keys::{Key, parse, value_key};
use crate::engine::located_records::located_records;
use crate::engine::slot::{RecordSlot, tag};
use crate::sled::fence::fenced;
use crate::sled::fetch::{ByTwoWays, Together, ahead};

/// Name of the tree with the sorted blocks of the index. Logs on disk have this name.
pub(crate) const BLOCKS_TREE: &str = "runs";

/// Name of the file with the image of the index.
pub(crate) const IMAGE_FILE: &str = "index";

/// Key of the watermark in the tree `meta`.
pub(crate) const WATERMARK: &str = "index";

/// The number of blocks that are loaded without another thread: enough for some ten thousand records.
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

/// The image of the index, read by a thread of its own while the database is checked and opened: both take about as long.
#[derive(Debug)]
pub(crate) struct ImageAhead(Option<JoinHandle<Result<Image, String>>>);

impl ImageAhead {
    /// Begins to read the image of the log in `dir`, if there is one.
    pub(crate) fn start(dir: &Path, id: LogId) -> Self {
        let path = dir.join(IMAGE_FILE);
        if !path.exists() {
            return Self(None);
        }
        let read = move || image::decode(id, &std::fs::read(path).map_err(|error| error.to_string())?);
        Self(std::thread::Builder::new().name("taskreel-image".to_owned()).spawn(read).ok())
    }

    /// Returns the image, or why it cannot be used.
    fn finish(self) -> Option<Result<Image, String>> {
        let read = self.0?.join();
        Some(read.unwrap_or_else(|_| Err("the thread that read it panicked".to_owned())))
    }
}

/// Loads the kept index; `None` if it is missing, and an error if it cannot be used.
pub(crate) fn load(
    image: ImageAhead,
    meta: &Tree,
    blocks: &Tree,
    log: ByTwoWays<'_>,
) -> Result<Option<KeptIndex>, String> {
    let Some(mark) = meta.get(WATERMARK).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let mark = std::str::from_utf8(&mark).ok().and_then(Watermark::parse);
    let mark = mark.ok_or("its watermark is damaged")?;
    if let Some(image) = image.finish() {
        match fenced(|| load_image(image?, &mark, blocks, log)).and_then(|loaded| loaded) {
            Ok(kept) => return Ok(Some(kept)),
            Err(why) => tracing::debug!(why, "the image of the index is not used"),
        }
    }
    let index = load_blocks(blocks, &mark)?;
    let epoch = check(&index, &mark, log)?;
    let builder = BlockBuilder::after(&mark, index.streams());
    Ok(Some(KeptIndex { index, mark, builder, epoch }))
}

/// Loads the image of the index, and the blocks that were finished after it by programs that did not close the log.
fn load_image(
    Image { mut index, mark, block }: Image,
    newest: &Watermark,
    blocks: &Tree,
    log: ByTwoWays<'_>,
) -> Result<KeptIndex, String> {
    if mark.first != newest.first {
        return Err("it is of a discarded index".to_owned());
    }
    let epoch = check(&index, &mark, log)?;
    let covered = mark.head.frontier.size();
    if newest.head.frontier.size() <= covered {
        let mut builder = BlockBuilder::after(&mark, index.streams()).with_open_block(block);
        builder.note_image(covered);
        return Ok(KeptIndex { index, mark, builder, epoch });
    }
    let first_stream = usize::try_from(block.first_stream).map_err(|error| error.to_string())?;
    let mut parser = BlockParser::after(first_stream);
    for ordinal in mark.blocks..newest.blocks {
        let found = blocks.get(value_key(ordinal)).map_err(|error| error.to_string())?;
        let wrong = |why| format!("sorted block {ordinal}: {why}");
        let parsed = parser.parse(&found.ok_or_else(|| wrong("it is missing".to_owned()))?).map_err(wrong)?;
        enter_after_image(&mut index, &parsed).map_err(wrong)?;
    }
    let epoch = check(&index, newest, log)?;
    let mut builder = BlockBuilder::after(newest, index.streams());
    builder.note_image(covered);
    Ok(KeptIndex { index, mark: newest.clone(), builder, epoch })
}

/// Checks that an index ends where its watermark says, and at the same record as the log there. Returns the epoch of that record.
fn check(index: &Index, mark: &Watermark, log: ByTwoWays<'_>) -> Result<u64, String> {
    let ends = (index.next_ordinal(), index.head(), index.records() as u64);
    if ends != (mark.values, mark.head.position, mark.head.frontier.size()) {
        return Err("it does not end where its watermark says".to_owned());
    }
    check_end(index, log)
}

/// Loads the blocks that a watermark covers. If they are many, a thread of their own fetches them and takes them apart ahead of
/// this one.
fn load_blocks(blocks: &Tree, mark: &Watermark) -> Result<Index, String> {
    let mut parser = BlockParser::default();
    let mut loader = Loader::from_parser(&parser);
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
fn check_end(index: &Index, (log, straight): ByTwoWays<'_>) -> Result<u64, String> {
    let Some((ordinal, slot)) = index.last() else { return Ok(0) };
    let gone = || format!("it ends at value {ordinal}, which the log does not have");
    let straight = straight.filter(|straight| straight.is_needed).and_then(|straight| straight.get(ordinal));
    let value = match straight {
        Some(value) => value,
        None => log.get(value_key(ordinal)).map_err(|error| error.to_string())?.ok_or_else(gone)?,
    };
    let (mut last, mut epoch) = (None, 0);
    for located in located_records(&value, ordinal).map_err(|error| error.to_string())? {
        let located = located.map_err(|error| error.to_string())?;
        epoch = epoch.max(located.view.epoch);
        last = Some((
            RecordSlot { offset: located.entry.offset, ..slot },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::reader::EventReader as _;
    use crate::api::store::EventStore as _;
    use crate::sled::database::open_database;
    use crate::sled::{SledOptions, SledStore, dir};
    use crate::testing::conformance::sketch::{Author, stream};

    /// Appends so many records of a hundred new streams and closes the log.
    fn life(at: &Path, name: &str, records: usize) {
        let store = SledStore::open(at).unwrap();
        let before = store.head().unwrap().0;
        let mut author = Author::new(store.fence()).with_sets_from(before + 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // Fewer at once than the writer's queue takes.
        for first in (0..records).step_by(4_000) {
            let numbers = first..records.min(first + 4_000);
            let append =
                |n| store.append(author.append_one(&stream(&format!("{name}{}", n % 100)), &[1; 20]));
            for append in numbers.map(append).collect::<Vec<_>>() {
                runtime.block_on(append).unwrap();
            }
        }
        store.close().unwrap();
    }

    /// Returns the records that the image covered and the records of the whole index, as an opening loads them.
    fn loaded(at: &Path) -> (u64, usize) {
        let db = open_database(at, SledOptions::default()).unwrap();
        let tree = |name: &str| db.open_tree(name).unwrap();
        let (meta, blocks, log) = (tree("meta"), tree(BLOCKS_TREE), tree("log"));
        let kept = load(ImageAhead::start(at, dir::log_header(at).unwrap().id), &meta, &blocks, (&log, None))
            .unwrap()
            .unwrap();
        let found = (kept.builder.imaged(), kept.index.records());
        drop((db, meta, blocks, log));
        dir::await_release(at, || false).unwrap();
        found
    }

    /// Opens the log and compares its index with its records.
    fn assert_sound(at: &Path, records: u64) {
        let store = SledStore::open(at).unwrap();
        assert!(store.open_notes().is_empty(), "{:?}", store.open_notes());
        assert_eq!(store.head().unwrap().0, records);
        store.survey_index(&mut |fault| panic!("{fault}"));
        store.close().unwrap();
    }

    #[test]
    fn an_opening_takes_the_image_of_a_clean_close_and_the_blocks_after_it_and_none_that_does_not_fit() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let image = one.path().join(IMAGE_FILE);
        life(one.path(), "a", 1_000);
        assert!(!image.exists(), "a small log needs none");
        life(one.path(), "b", 16_500);
        assert_eq!(loaded(one.path()), (17_500, 17_500), "without the records after the last block");
        assert_sound(one.path(), 17_500);
        // Too few for a new image, and enough for blocks.
        life(one.path(), "c", 5_000);
        let (covered, records) = loaded(one.path());
        assert!(covered == 17_500 && records > 17_500 + 2_000, "{covered} {records}");
        assert_sound(one.path(), 22_500);

        let good = std::fs::read(&image).unwrap();
        let mut damaged = good.clone();
        damaged[good.len() / 2] ^= 1;
        life(other.path(), "b", 17_500);
        let foreign = std::fs::read(other.path().join(IMAGE_FILE)).unwrap();
        for bad in [&damaged[..], &good[..good.len() / 2], &[], &foreign] {
            std::fs::write(&image, bad).unwrap();
            let (covered, records) = loaded(one.path());
            assert!(covered == 0 && records > 17_500);
            assert_sound(one.path(), 22_500);
        }
        // A rebuilt index has blocks of its own, also where the image covers more than they do.
        std::fs::write(&image, &good).unwrap();
        for (at, records) in [(one.path(), 22_500), (other.path(), 17_500)] {
            let rebuild = SledOptions { rebuild_index: true, ..SledOptions::default() };
            SledStore::open_with(at, rebuild).unwrap().close().unwrap();
            assert_eq!(loaded(at).0, 0);
            assert_sound(at, records);
        }
    }

    #[test]
    fn the_image_of_a_copy_that_went_another_way_is_not_used() {
        let [one, copy] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        life(one.path(), "a", 1_000);
        for entry in std::fs::read_dir(one.path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        }
        // As many records of the same streams, but not the same records.
        life(one.path(), "b", 17_000);
        life(copy.path(), "b", 17_000);
        assert_eq!((loaded(one.path()), loaded(copy.path())), ((18_000, 18_000), (18_000, 18_000)));
        std::fs::copy(copy.path().join(IMAGE_FILE), one.path().join(IMAGE_FILE)).unwrap();
        assert_eq!(loaded(one.path()).0, 0);
        assert_sound(one.path(), 18_000);
    }
}
