//! The rules by which `serve` lets callers in.

use taskreel_http::{Access, AccessError};

use crate::args::serve::ServeArgs;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::serve::ports::Addresses;

/// The variable that may hold a token.
const TOKEN: &str = "TASKREEL_TOKEN";

/// The principal of a caller that presents the one token.
const TOKEN_NAME: &str = "token";

/// Returns the rules.
///
/// # Errors
/// [`Problem`] if a file cannot be used, or if other machines reach the server and nobody needs a credential.
pub(crate) fn access_rules(args: &ServeArgs, addresses: &Addresses) -> Result<Access, Problem> {
    let access = put_together(args).map_err(|error| {
        let hint = "`taskreel serve --help` describes the files";
        Problem::new(EXIT_USAGE, "callers cannot be checked", error.to_string(), hint)
    })?;
    match addresses.open() {
        None => Ok(access),
        Some(_) if access.authenticates() => Ok(access),
        Some(address) => Err(Problem::new(
            EXIT_USAGE,
            format!("refused to listen at {address}; nothing was started"),
            "other machines reach this address, and no credential is asked for",
            "give --token-file or --auth-file, or listen at 127.0.0.1",
        )),
    }
}

fn put_together(args: &ServeArgs) -> Result<Access, AccessError> {
    let mut access = Access::open();
    if let Some(file) = &args.auth_file {
        access = access.with_file(file)?;
    }
    if let Some(file) = &args.token_file {
        access = access.with_token_file(TOKEN_NAME, file)?;
    }
    if std::env::var_os(TOKEN).is_some() {
        access = access.with_token_env(TOKEN_NAME, TOKEN)?;
    }
    for host in &args.allow_host {
        access = access.allow_host(host)?;
    }
    for origin in &args.allow_origin {
        access = access.allow_origin(origin)?;
    }
    Ok(access)
}
