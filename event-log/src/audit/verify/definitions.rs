//! Checks the streams of programs and of agents' definitions: epochs that only grow, starts and ends in pairs, and
//! revisions that number themselves and name the revision that holds each of their texts.

use std::cell::RefCell;

use proto_events::decider::Decider as _;
use proto_events::definition::{AgentEvent, AgentHistory, Aspect};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, StreamId};
use proto_events::system::{SystemEvent, SystemHistory};

use crate::shown::{Offer, system_prompt, with_hint};

/// The programs that wrote to a partition, as read so far.
#[derive(Default)]
pub(crate) struct SystemCheck(SystemHistory);

impl SystemCheck {
    /// Takes the stream's next event, of a record with this partition and epoch.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn take(
        &mut self,
        stream: &StreamId,
        (partition, epoch): (u32, u64),
        event: &SystemEvent,
    ) -> Result<(), String> {
        let named = match event {
            SystemEvent::Started(started) => started.epoch,
            SystemEvent::Stopped { epoch, .. } => *epoch,
            SystemEvent::ToolServerSeen(seen) => seen.epoch,
        };
        let last = self.0.last().map_or(0, |started| started.epoch);
        let running = self.0.is_running();
        let is_start = matches!(event, SystemEvent::Started(_));
        self.0.evolve(event, &Metadata::default());
        if *stream != StreamId::of_system(partition) {
            return Err(format!("it is of partition {partition}, but stands in {stream}"));
        }
        if named != epoch {
            return Err(format!("it names epoch {named}, but its record is of epoch {epoch}"));
        }
        if is_start && named < last {
            return Err(format!("a program of epoch {named} started after one of epoch {last}"));
        }
        let is_its_end = running && named == last;
        if !is_start && !is_its_end {
            let what = if matches!(event, SystemEvent::Stopped { .. }) { "stopped" } else { "saw a server" };
            return Err(format!("the program of epoch {named} {what}, but was not running"));
        }
        Ok(())
    }
}

/// The revision that holds a text, and the text's digest.
type HeldText = (u32, Option<Digest>);

/// The definitions of an agent, as read so far.
#[derive(Default)]
pub(crate) struct AgentCheck {
    revisions: Vec<[HeldText; Aspect::ALL.len()]>,
    history: AgentHistory,
    /// The leaf hash of the record of each revision.
    records: Vec<Digest>,
    /// The system prompt of each revision.
    rendered: Vec<Rendered>,
}

/// The system prompt of a revision. Its digest is made once, and not for each inference: a prompt is long.
struct Rendered {
    /// The epoch of the revision's record.
    epoch: u64,
    text: String,
    digest: Digest,
    /// The newest hint of a task's flow, and the digest of the prompt with it.
    hinted: RefCell<Option<(String, Digest)>>,
}

impl Rendered {
    fn new(epoch: u64, text: String) -> Self {
        Self { epoch, digest: Digest::of(text.as_bytes()), text, hinted: RefCell::default() }
    }

    /// Returns the digest of the prompt with a hint of a task's flow.
    fn digest(&self, hint: Option<&str>) -> Digest {
        let Some(hint) = hint else { return self.digest };
        let mut hinted = self.hinted.borrow_mut();
        if let Some((known, digest)) = hinted.as_ref()
            && known == hint
        {
            return *digest;
        }
        let digest = Digest::of(with_hint(&self.text, Some(hint)).as_bytes());
        *hinted = Some((hint.to_owned(), digest));
        digest
    }
}

impl AgentCheck {
    /// Returns the number of the newest revision.
    pub(crate) fn number(&self) -> u32 {
        u32::try_from(self.revisions.len()).unwrap_or(u32::MAX)
    }

    /// Returns the leaf hash of the record that holds a revision.
    pub(crate) fn record(&self, number: u32) -> Option<Digest> {
        self.records.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// Whether a program of this epoch rendered the system prompt of this digest, with this hint: from the definition it
    /// began with, or from one that it recorded.
    pub(crate) fn renders(&self, epoch: u64, hint: Option<&str>, system: Digest) -> bool {
        let earlier = self.rendered.iter().filter(|rendered| rendered.epoch < epoch).count();
        let mut all = self.rendered.iter().enumerate();
        all.any(|(at, rendered)| {
            (at + 1 == earlier || rendered.epoch == epoch) && rendered.digest(hint) == system
        })
    }

    /// Takes the agent's next event, of the record with this leaf hash and epoch.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn take(&mut self, event: &AgentEvent, record: Digest, epoch: u64) -> Result<(), String> {
        let AgentEvent::Revised(revised) = event;
        let expected = self.number().saturating_add(1);
        let held = revised
            .texts
            .clone()
            .map(|text| (text.since, text.text.as_ref().map(|text| Digest::of(text.as_bytes()))));
        let fault = self.fault(revised.number, expected, &held);
        self.revisions.push(held);
        self.records.push(record);
        self.history.evolve(event, &Metadata::default());
        let newest = self.history.newest().cloned().unwrap_or_default();
        let offer = Offer::of(&newest);
        self.rendered.push(Rendered::new(epoch, offer.as_ref().map(system_prompt).unwrap_or_default()));
        let fault = fault.or_else(|| offer.err().map(|error| error.to_string()));
        fault.map_or(Ok(()), Err)
    }

    fn fault(&self, number: u32, expected: u32, held: &[HeldText; Aspect::ALL.len()]) -> Option<String> {
        if number != expected {
            return Some(format!("revision {number} follows revision {}", expected - 1));
        }
        for (place, (aspect, (since, text))) in Aspect::ALL.iter().zip(held).enumerate() {
            let aspect = aspect.as_str();
            let of =
                |earlier: u32| self.revisions.get(usize::try_from(earlier).ok()?.checked_sub(1)?)?.get(place);
            let is_own = *since == number;
            let holds =
                if is_own { text.is_some() } else { of(*since).is_some_and(|(_, text)| text.is_some()) };
            if !holds || is_own != text.is_some() {
                return Some(format!("its {aspect} names revision {since}, which does not hold it"));
            }
            let again =
                (1..number).find(|earlier| is_own && of(*earlier).is_some_and(|(_, held)| held == text));
            if let Some(earlier) = again {
                return Some(format!("its {aspect} is held by revision {earlier} already"));
            }
        }
        let since = |texts: &[HeldText; Aspect::ALL.len()]| texts.each_ref().map(|(since, _)| *since);
        let is_same = self.revisions.last().is_some_and(|last| since(last) == since(held));
        is_same.then(|| format!("revision {number} changes nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_prompt_is_that_of_its_text_with_the_hint_whatever_was_asked_before() {
        let rendered = Rendered::new(1, "You are an agent.".to_owned());
        for hint in [None, Some("first"), Some("second"), None, Some("second"), Some("first")] {
            let anew = Digest::of(with_hint("You are an agent.", hint).as_bytes());
            assert_eq!(rendered.digest(hint), anew, "{hint:?}");
        }
    }

    #[test]
    fn a_program_renders_what_it_began_with_and_what_it_recorded() {
        let mut check = AgentCheck::default();
        let prompt = |number: u32| format!("prompt {number}");
        check.rendered =
            [(1, 1), (3, 2), (3, 3), (5, 4)].map(|(epoch, of)| Rendered::new(epoch, prompt(of))).into();
        let in_epoch = |epoch| {
            let is_its = |of: &u32| check.renders(epoch, None, Digest::of(prompt(*of).as_bytes()));
            (1..=4).filter(is_its).collect::<Vec<u32>>()
        };
        assert_eq!([1, 2, 3, 4, 5].map(in_epoch), [vec![1], vec![1], vec![1, 2, 3], vec![3], vec![3, 4]]);
    }
}
