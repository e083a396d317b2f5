//! The registries with which `serve` keeps its agents registered.

use std::net::SocketAddr;
use std::path::Path;

use taskreel_http::protolink::{Client, Credentials, Registration, check_url};

use crate::args::serve::ServeArgs;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::note;
use crate::serve::ports::Ports;

/// The registries, and what is shown to them.
pub(crate) struct RegistryEntries {
    client: Client,
    registries: Vec<String>,
}

impl RegistryEntries {
    /// Returns the registries that the arguments name.
    ///
    /// # Errors
    /// [`Problem`] if an address or a file cannot be used, or if nobody could reach the agents at the address that would be
    /// registered.
    pub(crate) fn new(args: &ServeArgs, listen: &[SocketAddr]) -> Result<Self, Problem> {
        for url in args.register.iter().chain(&args.public_url) {
            check_url(url).map_err(|error| {
                let hint = "give an address such as http://127.0.0.1:9000 or https://tasks.example.org";
                Problem::new(EXIT_USAGE, "an address cannot be used", error.to_string(), hint)
            })?;
        }
        let is_any = listen.iter().all(|address| address.ip().is_unspecified());
        if !args.register.is_empty() && args.public_url.is_none() && is_any {
            return Err(Problem::new(
                EXIT_USAGE,
                "the agents cannot be registered",
                format!("the server listens at {}, under which no client reaches it", args.listen),
                "give the address under which clients reach it with --public-url",
            ));
        }
        let client = Client::new().map_err(|error| {
            Problem::new(
                EXIT_NO,
                "the agents cannot be registered",
                error.to_string(),
                "run the command again",
            )
        })?;
        let client = match &args.register_token_file {
            Some(file) => client.credentials(Credentials::Bearer(token(file)?)),
            None => client,
        };
        Ok(Self { client, registries: args.register.clone() })
    }

    /// Begins to keep the agents of these ports registered.
    ///
    /// # Errors
    /// [`Problem`] if the address of an agent cannot be registered.
    pub(crate) fn start(
        self,
        args: &ServeArgs,
        ports: &Ports,
        url: &str,
    ) -> Result<Vec<Registration>, Problem> {
        let begun = self.registries.iter().map(|registry| {
            let registration = self.client.keep_registered(registry, ports.cards(url), args.heartbeat)?;
            ports.show(&registration);
            let watch = registration.watch();
            tokio::spawn(async move {
                let first = watch.first_word().await;
                if let Some(error) = first.error {
                    note(&format!("note: the agents are not registered yet: {error}; it is tried again"));
                }
            });
            Ok(registration)
        });
        let begun: Result<Vec<_>, taskreel_http::protolink::ClientError> = begun.collect();
        begun.map_err(|error| {
            Problem::new(EXIT_NO, "the agents cannot be registered", error.to_string(), "check --public-url")
        })
    }
}

/// Reads a token: the text of a file without the white space around it.
fn token(file: &Path) -> Result<String, Problem> {
    let wrong = |why: String| {
        let hint = "give a file with the registry's token that this user can read";
        Problem::new(
            EXIT_USAGE,
            "the agents cannot be registered",
            format!("{}: {why}", file.display()),
            hint,
        )
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("it holds no token of visible ASCII characters".to_owned()));
    }
    Ok(token.to_owned())
}
