//! A run that is found open under an agent whose definition has changed: where the host wants it so, a person is asked
//! before anything of it goes on.

use proto_events::envelope::Metadata;

use crate::actors::shared::messages::Cause;
use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::actors::task::found_run::{FoundRun, commands};
use crate::error::Error;

impl TaskCore {
    /// Whether nothing more happens without a person. A question of an earlier actor counts if this one has looked at it, or
    /// would leave it as it is.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_open = self.found.is_none_or(|found| found.is_looked_at || found.is_asked(self.task()));
        self.is_idle() || (is_open && self.task().is_held())
    }

    /// Decides to ask a person whether the run that was found open goes on, or to withdraw a question that has become
    /// pointless, in an append of its own: before the operation is decided, and before anything is planned. Returns the
    /// metadata of that append, or nothing without one.
    pub(super) fn ask_about_change(
        &mut self,
        shared: &Shared,
        metadata: &Metadata,
    ) -> Result<Option<Metadata>, Error> {
        let Some(found) = self.found.filter(|found| !found.is_looked_at) else { return Ok(None) };
        let is_same = self.task().run().is_some() && found.run == self.task().runs();
        let mut mint = shared.ports.clone();
        let commands =
            if is_same { commands(self.task(), found, &shared.agent.name, &mut mint) } else { Vec::new() };
        if commands.is_empty() {
            self.asked_about_change();
            return Ok(None);
        }
        let to = found.change.map_or(0, |change| change.to);
        let cause = Cause::from_system(format_args!("changed:{}:{to}", shared.store.fence().epoch), "start");
        let correlation_id = metadata.correlation_id.clone();
        let own = Metadata { correlation_id, ..cause.into_metadata(metadata.at) };
        for command in commands {
            self.entity.decide(command, &own)?;
        }
        Ok(Some(own))
    }

    /// Notes that a person was asked, where that was needed.
    pub(super) fn asked_about_change(&mut self) {
        self.found = self.found.map(|found| FoundRun { is_looked_at: true, ..found });
    }
}
