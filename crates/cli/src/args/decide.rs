//! The arguments of the commands by which a person decides.

use clap::Args;

use crate::args::source::ServerArgs;

/// The person who decides.
#[derive(Debug, Args)]
pub(crate) struct DecidedBy {
    /// Name of the person who decides; it is recorded in the log [default: the user's name]
    ///
    /// While a program has the log open, it records the user of the operating system instead; a server records the
    /// caller that the token names.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The task: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last
    /// for the task that changed last
    pub(crate) task: String,
    /// The approval's id, as shown by `taskreel calls`, or a unique beginning or end of it (4 characters or more)
    pub(crate) approval: String,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The task: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last
    /// for the task that changed last
    pub(crate) task: String,
    /// The approval's id, as shown by `taskreel calls`, or a unique beginning or end of it (4 characters or more)
    pub(crate) approval: String,
    /// The reason, which is recorded [default: the capabilities that the call needs]
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct ReconcileArgs {
    /// The call's id, as shown by `taskreel calls`, or a unique beginning or end of it (4 characters or more)
    pub(crate) call: String,
    /// The call took effect; RESULT is the result it would have returned, as JSON
    #[arg(long, value_name = "RESULT", group = "verdict")]
    pub(crate) landed: Option<String>,
    /// The call did not take effect, and no longer can
    #[arg(long, group = "verdict")]
    pub(crate) did_not_happen: bool,
    /// The call's task, if several tasks have a call with this id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Args)]
pub(crate) struct AbandonArgs {
    /// The call's id, as shown by `taskreel calls`, or a unique beginning or end of it (4 characters or more)
    pub(crate) call: String,
    /// The reason, which is recorded
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: String,
    /// The call's task, if several tasks have a call with this id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("said").required(true))]
pub(crate) struct AnswerArgs {
    /// The question, as shown by `taskreel calls`: the call's id and the question's number, CALL:NUMBER. The number may
    /// be left out for a call that has asked one question only
    pub(crate) question: String,
    /// The answer, which the call is given
    #[arg(group = "said")]
    pub(crate) text: Option<String>,
    /// Decline to answer; the reason is recorded, and the call's question returns it as an error
    #[arg(long, value_name = "WHY", group = "said")]
    pub(crate) decline: Option<String>,
    /// The call's task, if several tasks have a call with this id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The task: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last
    /// for the task that changed last
    pub(crate) task: String,
    /// The reason, which is recorded
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) decided_by: DecidedBy,
}
