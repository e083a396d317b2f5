//! Where the library's spans and their errors go: to stderr, if anybody asks for them.

use taskreel::inspect::cli::Problem;
use taskreel::inspect::cli::problem::EXIT_USAGE;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::{Global, LogFormat};

/// Installs the process's subscriber. Without a level and a format there is none.
///
/// # Errors
/// [`Problem`] if the level cannot be read.
pub(crate) fn start(global: &Global) -> Result<(), Problem> {
    let asked = global.log_level.clone().map(|level| (level, "--log-level"));
    let asked = asked.or_else(|| Some((std::env::var("RUST_LOG").ok()?, "RUST_LOG")));
    let (level, whence) = match (asked, global.log_format) {
        (Some((level, whence)), _) => (level, whence),
        (None, Some(_)) => ("info".to_owned(), "--log-format"),
        (None, None) => return Ok(()),
    };
    let filter = match EnvFilter::try_new(&level) {
        Ok(filter) => filter,
        // A variable that others set too must not stop anyone.
        Err(_) if whence == "RUST_LOG" => EnvFilter::new(&level),
        Err(error) => {
            let hint = "a level such as `info`, or `taskreel=debug,warn`";
            return Err(Problem::new(
                EXIT_USAGE,
                "--log-level cannot be understood",
                error.to_string(),
                hint,
            ));
        }
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match global.log_format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().with_span_events(FmtSpan::CLOSE).init(),
    }
    Ok(())
}
