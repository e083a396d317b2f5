//! Output of the library's spans and their errors to stderr, on request.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::{Color, Global, LogFormat};
use crate::print::problem::{EXIT_USAGE, Problem};

/// Installs the process's subscriber; none if neither a level nor a format is given.
///
/// # Errors
/// [`Problem`] if `--log-level` cannot be parsed.
pub(crate) fn start(global: &Global) -> Result<(), Problem> {
    let asked = global.log_level.clone().map(|level| (level, "--log-level"));
    let asked = asked.or_else(|| Some((std::env::var("RUST_LOG").ok()?, "RUST_LOG")));
    let (level, source) = match (asked, global.log_format) {
        (Some((level, source)), _) => (level, source),
        (None, Some(_)) => ("info".to_owned(), "--log-format"),
        (None, None) => return Ok(()),
    };
    let filter = match EnvFilter::try_new(&level) {
        Ok(filter) => filter,
        // RUST_LOG may be meant for other programs: an invalid value must not stop this one.
        Err(_) if source == "RUST_LOG" => EnvFilter::new(&level),
        Err(error) => {
            let hint = "use a level such as `info`, or `taskreel=debug,warn`";
            return Err(Problem::new(EXIT_USAGE, "--log-level is not valid", error.to_string(), hint));
        }
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let colour = match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            !matches!(anstream::AutoStream::choice(&std::io::stderr()), anstream::ColorChoice::Never)
        }
    };
    match global.log_format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => subscriber.with_ansi(colour).init(),
        // The fields of spans would have colours inside the texts of JSON.
        LogFormat::Json => subscriber.json().with_ansi(false).with_span_events(FmtSpan::CLOSE).init(),
    }
    Ok(())
}
