//! What can be typed behind the commands by which a person decides.

use clap::Args;

/// Who decides.
#[derive(Debug, Args)]
pub(crate) struct Decider {
    /// Who decides, as it stands in the log [default: the user's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The task: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) task: String,
    /// The approval's id, as `taskreel calls` shows it
    pub(crate) approval: String,
    #[command(flatten)]
    pub(crate) decider: Decider,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The task: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) task: String,
    /// The approval's id, as `taskreel calls` shows it
    pub(crate) approval: String,
    /// Why [default: the capabilities that it would have needed]
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) decider: Decider,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct ReconcileArgs {
    /// The call's id, as `taskreel calls` shows it
    pub(crate) call: String,
    /// It took effect; what it would have answered, as JSON
    #[arg(long, value_name = "RESULT", group = "verdict")]
    pub(crate) landed: Option<String>,
    /// It did not take effect, and will not any more
    #[arg(long, group = "verdict")]
    pub(crate) did_not_happen: bool,
    /// The task that has it, where several have a call of that id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) decider: Decider,
}

#[derive(Debug, Args)]
pub(crate) struct AbandonArgs {
    /// The call's id, as `taskreel calls` shows it
    pub(crate) call: String,
    /// Why
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: String,
    /// The task that has it, where several have a call of that id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) decider: Decider,
}
