//! The `SQLite` file of a Protolink program, which is only read: in place, in one read transaction. It may hold anything, so
//! only plain tables are read, values have a bound, and `SQLite` trusts nothing of what the schema says.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use crate::print::problem::{EXIT_HELD, EXIT_LOG, EXIT_UNKNOWN, Problem};

/// Largest value that is read (256 MiB). Protolink keeps all sessions of an agent in one.
const VALUE_BYTES_MAX: i32 = 256 * 1024 * 1024;

/// Tables that are looked at. Protolink makes four.
const TABLES_MAX: usize = 1_024;

/// Time for which a writer is waited for.
const WAIT_FOR_WRITER: Duration = Duration::from_secs(5);

/// The first bytes of each `SQLite` file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The columns of a table of values by key.
const STORAGE: [&str; 2] = ["key", "value"];

/// The columns that are read of a table of tasks, in both versions of Protolink.
const TASKS: [&str; 6] = ["task_id", "run_id", "agent_name", "task_json", "metadata_json", "updated_at"];

/// The columns that are read of a table of reports.
const REPORTS: [&str; 5] = ["run_id", "agent_name", "report_json", "metadata_json", "created_at"];

/// The columns that tell a table of checkpoints.
const CHECKPOINTS: [&str; 4] = ["run_id", "agent_name", "status", "data"];

/// An opened file, in a read transaction that lasts as long as this.
pub(super) struct Database {
    connection: Connection,
    storages: Vec<String>,
    tasks: Vec<String>,
    reports: Vec<String>,
    checkpoints: Vec<String>,
}

/// A row of a table of tasks.
pub(super) struct TaskRow {
    pub(super) run_id: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) task: String,
    pub(super) metadata: String,
    pub(super) updated_at: String,
}

/// A row of a table of reports.
pub(super) struct ReportRow {
    pub(super) run_id: String,
    pub(super) agent: Option<String>,
    pub(super) report: String,
    pub(super) metadata: String,
    pub(super) created_at: String,
}

/// The reason why a file or a part of it cannot be read.
#[derive(Debug)]
pub(super) enum Unread {
    Sqlite(rusqlite::Error),
    Said(String),
}

impl From<rusqlite::Error> for Unread {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(f),
            Self::Said(why) => f.write_str(why),
        }
    }
}

impl Unread {
    /// Returns the command's error.
    pub(super) fn problem(&self, file: &Path) -> Problem {
        let code = match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Said(_) => None,
        };
        let (exit, hint) = match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (EXIT_HELD, "another program writes to the file: stop it, then import the file again")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
                EXIT_LOG,
                "a program was interrupted while it wrote, or the file has a write-ahead log: open it once with \
                 `sqlite3 FILE 'PRAGMA journal_mode=DELETE'`, then import it again",
            ),
            Some(ErrorCode::TooBig) => (EXIT_LOG, "no value of more than 256 MiB is read"),
            _ => (EXIT_LOG, "give a file that protolink's SQLiteStorage or SQLiteRunStore has written"),
        };
        let what = format!("cannot import {}; nothing was imported", file.display());
        Problem::new(exit, what, self.to_string(), hint)
    }
}

impl Database {
    /// Opens a file, checks it, and finds its tables.
    pub(super) fn open(file: &Path) -> Result<Self, Problem> {
        check_magic(file)?;
        // An absolute path is never read as a URI with options.
        let path = std::fs::canonicalize(file).map_err(|error| unreadable(file, &error.to_string()))?;
        Self::open_sound(&path).map_err(|unread| unread.problem(file))
    }

    fn open_sound(path: &Path) -> Result<Self, Unread> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT_FOR_WRITER)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        connection.execute_batch(
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA mmap_size=0; BEGIN",
        )?;
        let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(Unread::Said(format!("the file is damaged: {found}")));
        }
        let mut database = Self {
            connection,
            storages: Vec::new(),
            tasks: Vec::new(),
            reports: Vec::new(),
            checkpoints: Vec::new(),
        };
        database.find_tables()?;
        Ok(database)
    }

    /// Sorts the plain tables by their columns: their names are chosen by the program that made them.
    fn find_tables(&mut self) -> Result<(), Unread> {
        let list =
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name";
        let mut names = Vec::new();
        let mut statement = self.connection.prepare(list)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if names.len() == TABLES_MAX {
                return Err(Unread::Said(format!("the file has more than {TABLES_MAX} tables")));
            }
            names.push(row.get::<_, String>(0)?);
        }
        drop(rows);
        drop(statement);
        for name in names {
            let columns = self.columns(&name)?;
            let has = |wanted: &[&str]| wanted.iter().all(|name| columns.iter().any(|column| column == name));
            if columns == STORAGE {
                self.storages.push(name);
            } else if has(&TASKS) {
                self.tasks.push(name);
            } else if has(&REPORTS) {
                self.reports.push(name);
            } else if has(&CHECKPOINTS) {
                self.checkpoints.push(name);
            }
        }
        if self.storages.is_empty() && self.tasks.is_empty() && self.reports.is_empty() {
            let why = "it has none of Protolink's tables: keys and values, tasks, or reports of runs";
            return Err(Unread::Said(why.to_owned()));
        }
        Ok(())
    }

    /// Returns the stored columns of a table; computed ones could cost any time.
    fn columns(&self, table: &str) -> Result<Vec<String>, Unread> {
        let mut statement =
            self.connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
        let columns = statement.query_map([table], |row| row.get(0))?;
        Ok(columns.collect::<Result<_, _>>()?)
    }

    /// Shows each value with its key.
    pub(super) fn values<E: From<Unread>>(
        &self,
        mut show: impl FnMut(String, String) -> Result<(), E>,
    ) -> Result<(), E> {
        for table in &self.storages {
            self.rows(table, &STORAGE, "key", |row| show(text(row, 0, table)?, text(row, 1, table)?))?;
        }
        Ok(())
    }

    /// Shows each task.
    pub(super) fn tasks<E: From<Unread>>(
        &self,
        mut show: impl FnMut(TaskRow) -> Result<(), E>,
    ) -> Result<(), E> {
        for table in &self.tasks {
            self.rows(table, &TASKS, "updated_at, task_id", |row| {
                show(TaskRow {
                    run_id: text_or_null(row, 1, table)?,
                    agent: text_or_null(row, 2, table)?,
                    task: text(row, 3, table)?,
                    metadata: text(row, 4, table)?,
                    updated_at: text(row, 5, table)?,
                })
            })?;
        }
        Ok(())
    }

    /// Shows each report of a run.
    pub(super) fn reports<E: From<Unread>>(
        &self,
        mut show: impl FnMut(ReportRow) -> Result<(), E>,
    ) -> Result<(), E> {
        for table in &self.reports {
            self.rows(table, &REPORTS, "created_at, run_id", |row| {
                show(ReportRow {
                    run_id: text(row, 0, table)?,
                    agent: text_or_null(row, 1, table)?,
                    report: text(row, 2, table)?,
                    metadata: text(row, 3, table)?,
                    created_at: text(row, 4, table)?,
                })
            })?;
        }
        Ok(())
    }

    /// Returns the number of checkpoints, which are not imported.
    pub(super) fn checkpoints(&self) -> Result<u64, Unread> {
        let count = |table: &String| -> Result<u64, Unread> {
            let count: i64 =
                self.connection
                    .query_row(&format!("SELECT count(*) FROM {}", quoted(table)), [], |row| row.get(0))?;
            Ok(u64::try_from(count).unwrap_or(0))
        };
        self.checkpoints.iter().map(count).sum()
    }

    fn rows<E: From<Unread>>(
        &self,
        table: &str,
        columns: &[&str],
        order: &str,
        mut show: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let select = format!("SELECT {} FROM {} ORDER BY {order}", columns.join(", "), quoted(table));
        let mut statement = self.connection.prepare(&select).map_err(Unread::from)?;
        let mut rows = statement.query([]).map_err(Unread::from)?;
        while let Some(row) = rows.next().map_err(Unread::from)? {
            show(row)?;
        }
        Ok(())
    }
}

fn unreadable(file: &Path, why: &str) -> Problem {
    let hint = "give a file that protolink's SQLiteStorage or SQLiteRunStore has written";
    Problem::new(EXIT_UNKNOWN, format!("cannot read {}; nothing was imported", file.display()), why, hint)
}

fn check_magic(file: &Path) -> Result<(), Problem> {
    let about = std::fs::metadata(file).map_err(|error| unreadable(file, &error.to_string()))?;
    if !about.is_file() {
        return Err(unreadable(file, "it is not a file"));
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) if start == *MAGIC => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(unreadable(file, &error.to_string()))
        }
        _ => Err(Unread::Said("it is not an SQLite database".to_owned()).problem(file)),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(row: &Row<'_>, column: usize, table: &str) -> Result<String, Unread> {
    let text = text_or_null(row, column, table)?;
    text.ok_or_else(|| Unread::Said(format!("a row of the table `{table}` has NULL where a text must be")))
}

fn text_or_null(row: &Row<'_>, column: usize, table: &str) -> Result<Option<String>, Unread> {
    let wrong =
        |what: &str| Unread::Said(format!("a row of the table `{table}` has {what} where a text must be"));
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(wrong("bytes that are no UTF-8")),
        },
        ValueRef::Integer(_) | ValueRef::Real(_) => Err(wrong("a number")),
        ValueRef::Blob(_) => Err(wrong("a blob")),
    }
}
