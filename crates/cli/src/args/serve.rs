//! The arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::run::LogArgs;

#[derive(Debug, Args)]
#[command(after_long_help = serve_help())]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ServeArgs {
    /// Address and port; port 0 is any free one
    ///
    /// An address that other machines reach needs a credential: `--token-file`, `--auth-file` or `TASKREEL_TOKEN`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: String,
    /// Address and port of the registry of agents, on a port of its own; port 0 is any free one
    ///
    /// The registry answers at `/agents/` of the agents' port in any case. On its own port its page is at `/status`, and
    /// no agent answers there. Credentials, hosts, origins, TLS and limits are the same as at the agents' port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) registry_listen: Option<String>,
    /// Registry with which the agents are registered, such as `http://127.0.0.1:9000`; may be given more than once
    ///
    /// The agents are heard of there as long as the server runs, registered again where the registry has forgotten them, and
    /// unregistered when the server stops. A registry that is away holds up neither the start nor the stop.
    #[arg(long, value_name = "URL")]
    pub(crate) register: Vec<String>,
    /// File with the token that is shown to those registries
    #[arg(long, value_name = "FILE", env = "TASKREEL_REGISTER_TOKEN_FILE", requires = "register")]
    pub(crate) register_token_file: Option<PathBuf>,
    /// Pause in seconds between two heartbeats to those registries
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = pause)]
    pub(crate) heartbeat: Duration,
    /// Address under which clients reach the server, for the agents' cards, such as `https://tasks.example.org`
    ///
    /// By default it is the address at which the server listens, or which a request names.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// File with a token that callers must present; its bearer may do all
    ///
    /// The token is the text of the file without the white space around it. It is sent as `Authorization: Bearer TOKEN` or
    /// `X-API-Key: TOKEN`. The principal in the log's records is `token`. The variable `TASKREEL_TOKEN` may hold the
    /// token in place of a file. A token is never taken from the command line, which other users can read.
    #[arg(long, value_name = "FILE", env = "TASKREEL_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with credentials, scopes, issuers of signed tokens, allowed hosts and limits; its format is shown below
    #[arg(long, value_name = "FILE", env = "TASKREEL_AUTH_FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// File with the certificate chain of the server, PEM; a renewed file is taken within ten seconds
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key of the certificate, PEM
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host that requests may name, such as `example.org` or `example.org:8080`; may be given more than once
    ///
    /// On a loopback address, only names of this machine are answered beside it, so that no web page reaches the server under
    /// a name of its own. On another address, any host is answered until one is allowed.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Origin whose web pages may call the server, such as `https://example.org`; may be given more than once
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Time in seconds that requests and calls in flight have to end when the server stops
    ///
    /// SIGTERM, SIGINT or SIGHUP stops the server in order, with exit code 0; a second signal ends it at once, with exit code
    /// 130. Nothing that was acknowledged is lost in either case.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// Script of the model's replies, as for `run`
    ///
    /// Without a script, `infer` parts end in an error with code `no_llm`.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Keep no conversations, as for `run`
    #[arg(long)]
    pub(crate) stateless: bool,
    /// Serve A2A 1.0 and 0.3 too: JSON-RPC and REST at the same address, and the card at `/.well-known/agent-card.json`
    #[cfg(feature = "a2a")]
    #[arg(long)]
    pub(crate) a2a: bool,
    /// Address and port at which A2A 1.0 is served over gRPC; port 0 is any free one
    ///
    /// The agents' cards name it. Credentials, hosts, TLS and limits are the same as at the agents' port.
    #[cfg(feature = "grpc")]
    #[arg(long, value_name = "ADDRESS", requires = "a2a")]
    pub(crate) grpc_listen: Option<String>,
    /// Sign the cards of A2A with the private key of this file: PEM, of P-256, P-384, Ed25519 or RSA; its id is the file's name
    #[cfg(feature = "a2a")]
    #[arg(long, value_name = "FILE", requires = "a2a")]
    pub(crate) a2a_card_key: Option<PathBuf>,
    /// The address of the key set with the public key, for --a2a-card-key
    #[cfg(feature = "a2a")]
    #[arg(long, value_name = "URL", requires = "a2a_card_key")]
    pub(crate) a2a_card_jku: Option<String>,
    /// A skill that A2A's public card shows; the others stand only on the extended card, for callers with a credential. May be
    /// repeated
    #[cfg(feature = "a2a")]
    #[arg(long, value_name = "NAME", requires = "a2a")]
    pub(crate) a2a_public_skill: Vec<String>,
    /// Over A2A, call no webhooks: their registration is refused, and the card says so
    ///
    /// Webhooks are called on the public internet alone. A task may have 10; what one cannot be told is tried again for about an
    /// hour, also after a restart.
    #[cfg(feature = "a2a")]
    #[arg(long, requires = "a2a")]
    pub(crate) no_push: bool,
    /// Over A2A, call webhooks on this machine too, at its loopback addresses
    #[cfg(feature = "a2a")]
    #[arg(long, requires = "a2a", conflicts_with = "no_push")]
    pub(crate) push_loopback: bool,
    /// Leave out the pages for a browser at `/inspect/`
    #[cfg(feature = "inspector")]
    #[arg(long)]
    pub(crate) no_inspector: bool,
    /// Let callers with the scope control decide on these pages: approve, deny, answer, settle unknown outcomes, cancel
    #[cfg(feature = "inspector")]
    #[arg(long, conflicts_with = "no_inspector")]
    pub(crate) allow_control: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = text.parse().map_err(|_| "it is no whole number of seconds".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}

fn pause(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Ok(Duration::ZERO) => Err("it must be at least 1".to_owned()),
        pause => pause,
    }
}

/// Returns the end of the help of `serve`.
fn serve_help() -> String {
    format!(
        "Prints the address once it listens. Without a credential, only this machine can reach the server. Tools: as for `run`.\n\nExamples:\n  taskreel serve\n  taskreel serve --a2a\n  taskreel serve --a2a --grpc-listen 127.0.0.1:50051\n  taskreel serve --listen 0.0.0.0:8443 --token-file token --tls-cert chain.pem --tls-key key.pem\n\n\
         The file of --auth-file:\n{}",
        taskreel_http::AUTH_FILE_FORMAT
    )
}
