//! The system: when a program began to write to a partition of the log, with what, and when it ended. Its
//! stream is `system-<partition>`.

use crate::decider::Decider;
use crate::envelope::Metadata;

/// An event of the programs that write to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemEvent {
    /// A program began to write. All records of its epoch are its own. A program that runs several systems over
    /// one log has a start for each, of the same epoch.
    Started(WriterStart),
    /// The program of this epoch ended in order: nothing that it begins follows. A start without this event ended
    /// in a crash or a power failure, or is still going on.
    Stopped {
        /// The epoch that ended.
        epoch: u64,
        /// The reason why the start failed; `None` for a shutdown.
        reason: Option<String>,
    },
    /// A server that was to bring tools brought less than it should, or one of which that was said has answered since.
    ToolServerSeen(ToolServerSeen),
}

/// A server of tools, as a running program saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServerSeen {
    /// The epoch of the program.
    pub epoch: u64,
    /// The agent that uses the server.
    pub agent: String,
    /// The server's name.
    pub server: String,
    /// The reason why none of its tools can be used; `None` if it has listed them.
    pub failure: Option<String>,
    /// The names of its tools that are used.
    pub tools: Vec<String>,
    /// The tools that it lists, or that the host names, and that are not used.
    pub left_out: Vec<ToolLeftOut>,
}

/// A tool of a server that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLeftOut {
    /// The tool's name, or its beginning.
    pub tool: String,
    /// The reason.
    pub why: String,
}

/// A program that began to write to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStart {
    /// The epoch of its records.
    pub epoch: u64,
    /// The version of taskreel.
    pub release: String,
    /// The host's own name for its build, if it gave one.
    pub build: Option<String>,
    /// The agents, each with the revision of its definition that decides from now on.
    pub agents: Vec<AgentRevision>,
}

/// An agent and a revision of its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRevision {
    /// The agent's name.
    pub name: String,
    /// The number of the revision in the agent's stream, from 1.
    pub number: u32,
}

/// A command to the system's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemCommand {
    /// Record the start of a program.
    Start(WriterStart),
    /// Record the end of the program of this epoch. The end of a program that is not running adds nothing.
    Stop {
        /// The epoch.
        epoch: u64,
        /// The reason why the start failed; `None` for a shutdown.
        reason: Option<String>,
    },
    /// Record what a running program saw of a server of tools. What a program that is not running saw adds nothing.
    NoteToolServer(ToolServerSeen),
}

/// The reason why a command to the system's stream is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemRejection {
    /// A later program writes already.
    #[error("a program of epoch {last} has already begun to write; epoch {epoch} is over")]
    EpochLowered {
        /// The epoch of the command.
        epoch: u64,
        /// The epoch of the last start.
        last: u64,
    },
}

/// The programs that wrote to a partition: the fold of its system stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemHistory {
    starts: u64,
    unclean_ends: u64,
    last: Option<WriterStart>,
    is_running: bool,
}

impl SystemHistory {
    /// Returns the number of starts.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns the number of programs that were followed by another one and had not ended in order.
    pub fn unclean_ends(&self) -> u64 {
        self.unclean_ends
    }

    /// Returns the last start.
    pub fn last(&self) -> Option<&WriterStart> {
        self.last.as_ref()
    }

    /// Whether the last program has not ended in order.
    pub fn is_running(&self) -> bool {
        self.is_running
    }
}

impl Decider for SystemHistory {
    type Command = SystemCommand;
    type Event = SystemEvent;
    type Rejection = SystemRejection;

    fn decide(&self, command: SystemCommand) -> Result<Vec<SystemEvent>, SystemRejection> {
        let last = self.last.as_ref().map(|started| started.epoch);
        match command {
            SystemCommand::Start(started) => match last.filter(|last| started.epoch < *last) {
                Some(last) => Err(SystemRejection::EpochLowered { epoch: started.epoch, last }),
                None => Ok(vec![SystemEvent::Started(started)]),
            },
            SystemCommand::Stop { epoch, reason } => {
                let is_its_own = self.is_running && last == Some(epoch);
                Ok(if is_its_own { vec![SystemEvent::Stopped { epoch, reason }] } else { Vec::new() })
            }
            SystemCommand::NoteToolServer(seen) => {
                let is_its_own = self.is_running && last == Some(seen.epoch);
                Ok(if is_its_own { vec![SystemEvent::ToolServerSeen(seen)] } else { Vec::new() })
            }
        }
    }

    fn evolve(&mut self, event: &SystemEvent, _: &Metadata) {
        match event {
            SystemEvent::Started(started) => {
                self.starts += 1;
                // A second start of one epoch is another agent of the same program.
                let is_joined = self.last.as_ref().is_some_and(|last| last.epoch == started.epoch);
                self.unclean_ends += u64::from(self.is_running && !is_joined);
                self.is_running = true;
                self.last = Some(started.clone());
            }
            SystemEvent::Stopped { .. } => self.is_running = false,
            SystemEvent::ToolServerSeen(_) => {}
        }
    }
}
