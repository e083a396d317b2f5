//! Tests of `tail` and `events`, without `--follow` and with `--exit-at-end`, beside a program that writes all the time.

use std::io::Write;
use std::sync::{Arc, Mutex};

use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{Append, EventReader, EventStore, Page, ReadError, StoredRecord};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::conformance::{Author, stream};
use taskreel_log::testing::{DelegatingStore, Overrides};
use taskreel_log::views::Selection;

use crate::look::follow::to_end;
use crate::print::events::{EventLines, EventsOf, events, print_to_its_end};
use crate::print::screen::Screen;

/// The events of the log at the beginning: more than a page.
const BEFORE: usize = 300;

/// An output that is kept.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A program that writes an event before each page of its log is read, so many times.
struct Writing(Mutex<(Author, usize)>);

impl Writing {
    fn write(&self, log: &dyn EventStore) {
        let mut writing = self.0.lock().unwrap();
        if writing.1 > 0 {
            writing.1 -= 1;
            append(log, writing.0.append_one(&stream("s"), b"later"));
        }
    }
}

impl Overrides for Writing {
    fn page_stream(
        &self,
        log: &dyn EventStore,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.write(log);
        log.page_stream(stream, from, page)
    }

    fn page_all(
        &self,
        log: &dyn EventStore,
        from: Position,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.write(log);
        log.page_all(from, page)
    }
}

fn append(log: &dyn EventStore, append: Append) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(log.append(append)).unwrap();
}

/// Returns the lines that are printed of a log to which a program writes meanwhile.
fn printed(
    print: &dyn Fn(&dyn EventReader, &EventsOf, &mut EventLines, &mut Screen),
    of: &EventsOf,
) -> usize {
    let store = Arc::new(MemoryStore::new());
    let mut author = Author::new(store.fence());
    for _ in 0..BEFORE {
        append(&*store, author.append_one(&stream("s"), b"before"));
    }
    let log = DelegatingStore::new(store, Writing(Mutex::new((author, 100))));
    let output = Output::default();
    let mut screen = Screen::onto(output.clone(), true);
    let mut lines = EventLines::for_events(of, Selection::default(), None);
    print(&log, of, &mut lines, &mut screen);
    let printed = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    printed.lines().count()
}

#[test]
fn what_ends_at_the_end_prints_what_there_was_when_it_began() {
    for of in [EventsOf::All, EventsOf::Stream(stream("s"))] {
        let to_end = |log: &dyn EventReader, of: &EventsOf, lines: &mut EventLines, screen: &mut Screen| {
            to_end(log, of, 1, lines, screen).unwrap();
        };
        let plain = |log: &dyn EventReader, of: &EventsOf, lines: &mut EventLines, screen: &mut Screen| {
            events(log, of, lines, screen).unwrap();
        };
        let followed = |log: &dyn EventReader, of: &EventsOf, lines: &mut EventLines, screen: &mut Screen| {
            let next = print_to_its_end(log, of, 1, lines, screen).unwrap();
            lines.finish(screen).unwrap();
            screen.flush().unwrap();
            assert_eq!(next, BEFORE as u64 + 1, "{of:?}, what is followed next");
        };
        assert_eq!(printed(&to_end, &of), BEFORE, "{of:?}, with --exit-at-end");
        assert_eq!(printed(&followed, &of), BEFORE, "{of:?}, before what is followed");
        assert_eq!(printed(&plain, &of), BEFORE, "{of:?}, without --follow");
    }
}
