//! The log behind a server: connecting to it, and the words that name it on a command line.

use std::sync::OnceLock;

use taskreel_http::{HttpLog, HttpLogError};
use taskreel_log::views::shell_word;

use crate::args::source::ServerArgs;
use crate::print::problem::{EXIT_LOG, Problem};
use crate::print::screen::note;

/// The variable with the bearer token. It is not an argument: other users see those.
const TOKEN: &str = "TASKREEL_TOKEN";

/// The server that this command has connected to.
static CONNECTED: OnceLock<ServerArgs> = OnceLock::new();

/// Connects to the server, if one is named.
///
/// # Errors
/// [`Problem`] if it cannot be read.
pub(crate) fn connect(args: &ServerArgs) -> Result<Option<HttpLog>, Problem> {
    let Some(url) = &args.url else { return Ok(None) };
    let log = token(args).and_then(|token| HttpLog::connect(url, token.as_deref()));
    let log = log.map_err(|error| Problem::at_server(&error, url))?;
    CONNECTED.get_or_init(|| args.clone());
    if let Some(warning) = log.about().durability.warning() {
        note(&format!("note: {warning}"));
    }
    Ok(Some(log))
}

fn token(args: &ServerArgs) -> Result<Option<String>, HttpLogError> {
    match &args.token_file {
        Some(file) => HttpLog::token_in(file).map(Some),
        None => Ok(std::env::var(TOKEN).ok().filter(|token| !token.is_empty())),
    }
}

/// Returns the options that name the server, as typed behind a command.
pub(crate) fn options(args: &ServerArgs) -> String {
    let url = args.url.as_deref().map(|url| format!(" --url {}", shell_word(url)));
    let file = args.token_file.as_ref();
    let file = file.map(|file| format!(" --token-file {}", shell_word(&file.display().to_string())));
    url.unwrap_or_default() + &file.unwrap_or_default()
}

/// Explains the end of a command that read the log behind a server: a server that was lost in the middle says nothing of
/// its log.
pub(crate) fn explained(problem: Problem) -> Problem {
    let Some((args, url)) = CONNECTED.get().and_then(|args| Some((args, args.url.as_ref()?))) else {
        return problem;
    };
    if problem.code != EXIT_LOG {
        return problem;
    }
    let now = token(args).and_then(|token| HttpLog::connect(url, token.as_deref()));
    now.err().map_or(problem, |error| Problem::at_server(&error, url))
}
