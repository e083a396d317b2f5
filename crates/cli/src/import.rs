//! `import`: makes a new log from an export; `import protolink` takes in what a Protolink program has kept.

#[cfg(feature = "import-protolink")]
mod protolink;

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use taskreel_log::api::{AppendError, Durability};
use taskreel_log::audit;
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::audit::{ImportError, ImportSummary};
use taskreel_log::jsonl::ExportLines;
use taskreel_log::sled::SledImport;

#[cfg(feature = "import-protolink")]
use crate::args::ImportFrom;
use crate::args::{Global, ImportArgs};
use crate::dirs;
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_LOG, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::signals::Interrupts;

pub(crate) fn import(args: &ImportArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    #[cfg(feature = "import-protolink")]
    if let Some(ImportFrom::Protolink(args)) = &args.from {
        return protolink::import(args, global, screen);
    }
    let Some(file) = &args.file else {
        let hint = "give a file that `taskreel export` has written, or `-` for stdin";
        return Err(Problem::new(EXIT_USAGE, "nothing to import", "no file is named", hint));
    };
    let durability = args.durability.map(Durability::from).unwrap_or_default();
    let answer = import_export(file, durability, global, screen)?;
    if args.group_readable {
        dirs::let_group_read(&dirs::to_write(global, LOG_DIR))?;
    }
    Ok(answer)
}

fn import_export(
    from_file: &Path,
    durability: Durability,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let dir = dirs::to_write(global, LOG_DIR);
    let unreadable = |error: io::Error| Problem::export(&error.into(), from_file);
    let is_stdin = from_file.as_os_str() == "-";
    let file = (!is_stdin).then(|| File::open(from_file)).transpose().map_err(unreadable)?;
    let interrupts = Interrupts::take_over();
    let from: Box<dyn BufRead> = match file {
        Some(file) if file.metadata().is_ok_and(|about| about.is_file()) => Box::new(BufReader::new(file)),
        Some(file) => Box::new(BufReader::new(PipedInput::start(file, &interrupts).map_err(unreadable)?)),
        None => Box::new(BufReader::new(PipedInput::start(io::stdin(), &interrupts).map_err(unreadable)?)),
    };
    // Whatever failed after a signal failed because of it.
    let done = import_into(from, (from_file, durability), &dir, &interrupts).map_err(|problem| {
        interrupts.now("import the file again: nothing was imported").unwrap_or(problem)
    })?;
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.import/1")),
            ("records", number(done.records)),
            ("events", number(done.events)),
            ("faults", number(done.faults)),
            ("data_dir", text(&dir.display().to_string())),
        ]))?;
    } else {
        screen.line(&format!(
            "imported {} with {} into {}",
            count(done.records, "record", "records"),
            count(done.events, "event", "events"),
            dir.display()
        ))?;
    }
    screen.flush()?;
    if done.faults > 0 {
        let faults = count(done.faults, "fault", "faults");
        let verify = dirs::typed("verify", &dir, LOG_DIR);
        note(&format!(
            "the records are imported byte for byte, and their contents have {faults}; list them with: {verify}"
        ));
    }
    note(&format!("next: {}", dirs::typed("ls", &dir, LOG_DIR)));
    interrupts.now("nothing is left to do: the import is complete").map_or(Ok(Answer::Yes), Err)
}

/// The longest piece that is read of a pipe at once.
const PIECE_BYTES: usize = 64 << 10;

/// The pieces that are read ahead of a pipe.
const PIECES_AHEAD: usize = 16;

/// A pipe or a terminal, read on a thread of its own: waiting for it ends at a signal.
struct PipedInput {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
}

impl PipedInput {
    fn start(mut from: impl Read + Send + 'static, interrupts: &Interrupts) -> io::Result<Self> {
        let (send, pieces) = sync_channel(PIECES_AHEAD);
        let at_signal = send.clone();
        // A full channel is read soon, and the appends are stopped by the signal themselves.
        interrupts.tell(move || drop(at_signal.try_send(Err(io::Error::other("a signal was received")))));
        let read = move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = from.read(&mut piece).map(|read| {
                    piece.truncate(read);
                    piece
                });
                let is_last = read.as_ref().map_or(true, Vec::is_empty);
                if send.send(read).is_err() || is_last {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
        Ok(Self { pieces, piece: io::Cursor::default() })
    }
}

impl Read for PipedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.pieces.recv() {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(_) => return Ok(0),
            }
            if self.piece.get_ref().is_empty() {
                return Ok(0);
            }
        }
    }
}

/// Imports into a new log. A failed import leaves nothing: dropping it undoes it.
fn import_into(
    from: Box<dyn BufRead>,
    (file, durability): (&Path, Durability),
    dir: &Path,
    interrupts: &Interrupts,
) -> Result<ImportSummary, Problem> {
    let lines = ExportLines::open(from).map_err(|error| Problem::export(&error, file))?;
    // No hash covers the first line: a log is not made weaker because of it.
    let name = &lines.header().durability;
    if *name != durability.name() {
        note(&format!(
            "the file says that its log has durability `{name}`; the new log has `{}`, unless --durability says otherwise",
            durability.name()
        ));
    }
    let id = lines.header().id;
    let mut log = SledImport::create(dir, id, durability).map_err(|error| Problem::open(&error, dir))?;
    let done = audit::import(lines, |append| match interrupts.now("") {
        Some(_) => Err(AppendError::Closed),
        None => log.take(append),
    });
    let done = done.map_err(|error| refused(&error, file))?;
    log.finish().map_err(|error| Problem::open(&error, dir))?;
    Ok(done)
}

fn refused(error: &ImportError<AppendError>, file: &Path) -> Problem {
    let mut problem = match error {
        ImportError::Export(error) => Problem::export(error, file),
        error => Problem::new(
            EXIT_LOG,
            format!("cannot import {}", file.display()),
            error.to_string(),
            "check that the disk works and has free space, then import the file again",
        ),
    };
    problem.what = format!("{}; nothing was imported", problem.what);
    problem
}
