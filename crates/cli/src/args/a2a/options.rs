//! The options of every command of `a2a`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The end of the help of `a2a`.
const ABOUT_SETTINGS: &str = "Settings: a flag counts before an environment variable, this before a local file, this before the \
global file, this before the default. The variable of a flag is A2ACLI_ and its name in capitals, --agent-card being \
A2ACLI_AGENT_CARD. The files have one NAME=VALUE per line: `.env` in the working directory or the nearest folder above it \
(or the file of --config), and ~/.config/a2a-cli/.env. `taskreel a2a config show` prints what is in force. --stream is only \
ever a flag.

Credentials: a value that is given as a flag is seen in the list of processes and in the history of the shell; \
A2ACLI_BEARER and A2ACLI_API_KEY are not. A file with a credential must be readable by its owner alone.

Exit codes: 0 the command did its work, whatever became of the task; 1 it could not; 2 wrong usage; 3 no agent or no card \
there; 4 credentials are missing or were refused; 5 --timeout has passed; 130 interrupted: the task goes on at the agent.";

/// The options of every command of `a2a`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the specification")]
#[command(next_help_heading = "Everywhere in a2a", after_long_help = ABOUT_SETTINGS)]
pub(crate) struct A2aOptions {
    /// The agent: a host, an address, the address of its card, or a file with its card
    ///
    /// Of a host or an address the card is at /.well-known/agent-card.json. A host without a scheme is reached by https, one
    /// of this machine by http.
    #[arg(short = 'a', long, value_name = "REF", global = true)]
    pub(crate) agent_card: Option<String>,
    /// Print text, or JSON in the protocol's own types [default: text]
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, global = true)]
    pub(crate) output: Option<OutputFormat>,
    /// Print each event as it comes; with -o json, one JSON object per line
    #[arg(long, global = true)]
    pub(crate) stream: bool,
    /// Show the whole of what was sent and received: history, metadata, all parts [default: concise]
    #[arg(long, global = true)]
    pub(crate) verbose: bool,
    /// Write what goes over the wire to stderr, with times; credentials are not shown
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// Longest wait for the task, such as `30s`, `5m` or `500ms` [default: 5m; with --stream, none]
    #[arg(long, value_name = "TIME", global = true)]
    pub(crate) timeout: Option<String>,
    /// Pause between two looks at the task while waiting [default: 2s, and shorter ones at the beginning]
    #[arg(long, value_name = "TIME", global = true)]
    pub(crate) poll_interval: Option<String>,
    /// Binding to use: JSONRPC or HTTP+JSON; may be given more than once, the preferred one first
    /// [default: the first of the card that is spoken here]
    #[arg(long, value_name = "BINDING", global = true)]
    pub(crate) transport: Vec<String>,
    /// Version of the protocol to speak [default: the highest that both speak, 1.0 at least]
    ///
    /// 0.3 is spoken only if it is named here. Another version is named to the agent as it stands, in the form of 1.0.
    #[arg(long, value_name = "VERSION", global = true)]
    pub(crate) a2a_version: Option<String>,
    /// Token to show, as `Authorization: Bearer`; better in `A2ACLI_BEARER`, where no other user sees it
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) bearer: Option<String>,
    /// API key to show, where the card says; better in `A2ACLI_API_KEY`, where no other user sees it
    #[arg(long, value_name = "KEY", global = true)]
    pub(crate) api_key: Option<String>,
    /// Service parameter of each request, which is a header over HTTP; may be given more than once
    #[arg(long, value_name = "NAME:VALUE", global = true)]
    pub(crate) svc_param: Vec<String>,
    /// Show credentials also at interfaces of other hosts than the card's
    #[arg(long, global = true)]
    pub(crate) credentials_for_other_hosts: bool,
    /// Believe any certificate, for development only [default: TLS is verified]
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// File with public keys (a JSON Web Key Set): only an agent whose card one of them has signed is asked [default: cards
    /// are believed as they come]
    ///
    /// What the signature does not cover is not read. `card get` prints any card, and says whether it is verified.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) card_keys: Option<PathBuf>,
    /// File with settings, in place of the local `.env`
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Keep each exchange in this log of taskreel, which is created if it is missing
    ///
    /// A task of the log is one exchange: the request is on disk before it is sent, the answer and each event of a stream as
    /// they come, without credentials. `taskreel ls`, `show`, `events` and `verify` read it with --data-dir.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) record: Option<PathBuf>,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Fields for people, one per line
    Text,
    /// The protocol's own types
    Json,
}

impl A2aOptions {
    /// Returns the flags that were given, as settings by their names.
    pub(crate) fn given_settings(&self) -> Vec<(&'static str, String)> {
        let text = |name, value: &Option<String>| value.clone().map(|value| (name, value));
        let flag = |name, is_on: bool| is_on.then(|| (name, "true".to_owned()));
        let list = |name, values: &[String]| (!values.is_empty()).then(|| (name, values.join("\n")));
        let path =
            |name, value: &Option<PathBuf>| value.as_ref().map(|path| (name, path.display().to_string()));
        let output = self.output.map(|format| match format {
            OutputFormat::Text => ("output", "text".to_owned()),
            OutputFormat::Json => ("output", "json".to_owned()),
        });
        [
            text("agent-card", &self.agent_card),
            output,
            flag("verbose", self.verbose),
            flag("debug", self.debug),
            text("timeout", &self.timeout),
            text("poll-interval", &self.poll_interval),
            list("transport", &self.transport),
            text("a2a-version", &self.a2a_version),
            text("bearer", &self.bearer),
            text("api-key", &self.api_key),
            list("svc-param", &self.svc_param),
            flag("credentials-for-other-hosts", self.credentials_for_other_hosts),
            flag("insecure", self.insecure),
            path("card-keys", &self.card_keys),
            path("record", &self.record),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
