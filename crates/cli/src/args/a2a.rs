//! The arguments of `a2a`, by the specification of A2A command lines.

pub(crate) mod options;
pub(crate) mod parts;

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

use crate::args::a2a::options::A2aOptions;
use crate::args::a2a::parts::PartsArgs;
use crate::args::about::CompletionsArgs;

#[derive(Debug, Args)]
#[command(
    version,
    propagate_version = true,
    disable_version_flag = true,
    subcommand_required = true,
    arg_required_else_help = true,
    subcommand_help_heading = "Commands of A2A"
)]
pub(crate) struct A2aArgs {
    #[command(flatten)]
    pub(crate) options: A2aOptions,
    /// Print the version and exit
    #[arg(short = 'v', long = "version", action = ArgAction::Version, global = true)]
    #[arg(help_heading = "Everywhere in a2a")]
    pub(crate) version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: A2aCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum A2aCommand {
    /// The card of an agent
    #[command(subcommand, arg_required_else_help = true)]
    Card(CardCommand),
    /// Send a message, and wait until its task is over or waits for you
    ///
    /// The message has a part for each --text, --file and --data, in their order; TEXT is a first one. Without --stream or
    /// --async the task at its end is printed. A task that failed or was rejected is an answer: the exit code is 0 then too.
    #[command(after_help = "Examples:\n  \
        taskreel a2a send -a localhost:8080 \"Weather in Oslo?\"\n  \
        taskreel a2a send -a localhost:8080 --text \"Sum this up\" --file report.bin --media-type application/pdf\n  \
        taskreel a2a send -a localhost:8080 --task-id TASK \"Oslo\"\n  \
        echo '{\"a\":1}' | taskreel a2a send -a localhost:8080 --data - -o json --stream")]
    Send(SendArgs),
    /// Tasks of an agent: read, list, follow and cancel them, save their results
    #[command(subcommand, arg_required_else_help = true)]
    Task(TaskCommand),
    /// Tokens of the authorization server that an agent's card names
    #[command(subcommand, arg_required_else_help = true)]
    Auth(AuthCommand),
    /// The settings, and where each comes from
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Try whether an agent speaks A2A as it should; exit 1 if a check fails
    ///
    /// Reads the card, asks for a task that does not exist, names a version that does not exist, and sends what is not a request,
    /// over each interface. That changes nothing at the agent. With --send a message is sent over each interface as well, and
    /// its task is read, listed, followed and canceled: what the agent does with the message it does.
    #[command(visible_alias = "conformance")]
    #[command(after_help = "Example: taskreel a2a check http://localhost:8080 --send hello")]
    Check(CheckArgs),
    /// Print the script with which a shell completes the command line
    Completion(CompletionsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CardCommand {
    /// Print the card: who the agent is, what it can do, and how it is reached
    Get(CardGetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CardGetArgs {
    /// Check the card against A2A's schema first; exit 1 if it does not fit
    #[arg(long)]
    pub(crate) validate: bool,
    /// Print the card that the agent keeps for callers that it knows
    #[arg(long)]
    pub(crate) extended: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
    /// Go on with this task, for example one that waits for input
    #[arg(long, value_name = "ID")]
    pub(crate) task_id: Option<String>,
    /// Begin a new task in this context [default: a context of its own]
    #[arg(long, value_name = "ID")]
    pub(crate) context_id: Option<String>,
    /// Print the task's ids at once, and do not wait [default: wait]
    #[arg(long = "async", visible_aliases = ["return-immediately", "no-wait"], conflicts_with = "wait")]
    pub(crate) is_async: bool,
    /// Wait until the task is over or waits for you; this is the default
    #[arg(long, visible_alias = "watch")]
    pub(crate) wait: bool,
    /// Further data of the request, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// The most messages of the history that are wanted [default: as the agent likes]
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Print a task: its state and its results
    Get(TaskGetArgs),
    /// Cancel a task; one that was canceled before is not an error
    Cancel(TaskIdArgs),
    /// List tasks, the one that changed last first
    List(TaskListArgs),
    /// Follow a task until it is over or waits for you
    Subscribe(TaskIdArgs),
    /// Save the results of a task as files
    ///
    /// A file that exists is never overwritten: a number is added to the name. A result that is an address is not fetched.
    Download(DownloadArgs),
    /// The webhooks that the agent calls when a task changes
    #[command(subcommand, arg_required_else_help = true)]
    PushConfig(PushCommand),
}

#[derive(Debug, Args)]
pub(crate) struct TaskIdArgs {
    /// The task
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct TaskGetArgs {
    /// The task
    pub(crate) id: String,
    /// Wait until the task is over or waits for you
    #[arg(long, visible_alias = "watch")]
    pub(crate) wait: bool,
    /// The most messages of the history that are wanted [default: as the agent likes]
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskListArgs {
    /// The tasks of this context alone
    #[arg(long, value_name = "ID")]
    pub(crate) context_id: Option<String>,
    /// The tasks in this state alone, such as `working` or `TASK_STATE_WORKING`
    #[arg(long, value_name = "STATE")]
    pub(crate) status: Option<String>,
    /// The most tasks of a page, from 1 to 100 [default: as the agent likes]
    #[arg(long, value_name = "N")]
    pub(crate) page_size: Option<u32>,
    /// The page after the one that named this token
    #[arg(long, value_name = "TOKEN", conflicts_with = "all")]
    pub(crate) page_token: Option<String>,
    /// All pages, one after another
    #[arg(long)]
    pub(crate) all: bool,
    /// With the results of each task
    #[arg(long)]
    pub(crate) artifacts: bool,
    /// The most messages of each history that are wanted [default: as the agent likes]
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct DownloadArgs {
    /// The task
    pub(crate) id: String,
    /// Folder for the files; created if it is missing
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Save this result alone
    #[arg(long, value_name = "ID")]
    pub(crate) artifact: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PushCommand {
    /// Have the agent call a webhook when the task changes
    Create(PushCreateArgs),
    /// Print one registration
    Get(PushIdArgs),
    /// List the registrations of a task
    List(TaskIdArgs),
    /// Remove a registration; one that does not exist is not an error
    Delete(PushIdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PushCreateArgs {
    /// The task
    pub(crate) id: String,
    /// Address that the agent calls
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// Id of the registration [default: the agent chooses one]
    #[arg(long, value_name = "ID")]
    pub(crate) config_id: Option<String>,
    /// File with the token that the agent sends along, so that the webhook knows it
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PushIdArgs {
    /// The task
    pub(crate) id: String,
    /// The registration
    pub(crate) config_id: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Get a token by OAuth 2, and keep it: later commands show it to this agent
    ///
    /// The ways are a code that you enter in a browser, perhaps on another device, and the client's own credentials. The token is
    /// kept in ~/.config/a2a-cli/tokens, which its owner alone may read, and renewed where the server gives it the means. A
    /// client's secret stands in `A2ACLI_CLIENT_SECRET`, or in a file of settings that its owner alone may read.
    #[command(after_help = "Examples:\n  \
        taskreel a2a auth login -a agent.example.org --client-id taskreel\n  \
        A2ACLI_CLIENT_SECRET=… taskreel a2a auth login -a agent.example.org --client-id taskreel --client-credentials")]
    Login(LoginArgs),
    /// Forget the token that is kept for this agent; the authorization server is not told
    Logout,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Name of this client at the authorization server
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Scope to ask for; may be given more than once [default: those that the card asks for]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Get the token by a code that you enter in a browser [default, unless there is a client's secret]
    #[arg(long, conflicts_with = "client_credentials")]
    pub(crate) device: bool,
    /// Get the token by the client's own credentials
    #[arg(long)]
    pub(crate) client_credentials: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each setting with its value and its source; credentials are not shown
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Address of the agent, or of its card [default: --agent-card]
    pub(crate) url: Option<String>,
    /// Send this text over each interface, and check the task that it makes
    #[arg(long, value_name = "TEXT")]
    pub(crate) send: Option<String>,
}
