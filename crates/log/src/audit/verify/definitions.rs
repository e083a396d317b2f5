//! Checks the streams of programs and of agents' definitions: epochs that only grow, starts and ends in pairs, and
//! revisions that number themselves and name the revision that holds each of their texts.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use proto_events::decider::Decider as _;
use proto_events::definition::{AgentEvent, AgentHistory, Aspect};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, StreamId};
use proto_events::json::JsonValue;
use proto_events::system::{SystemEvent, SystemHistory};

use crate::audit::verify::suits::has_default;
use crate::shown::{Offer, system_prompt, with_hint};

/// The programs that wrote to a partition, as read so far.
#[derive(Default)]
pub(crate) struct SystemCheck(SystemHistory);

impl SystemCheck {
    /// Takes the stream's next event, of a record with this partition and epoch.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(
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
    /// The revision that holds each text, by the place of its aspect.
    holders: HashMap<(usize, Digest), u32>,
    history: AgentHistory,
    /// The leaf hash of the record of each revision.
    records: Vec<Digest>,
    /// The epoch of the record of each revision, and the place of its system prompt.
    rendered: Vec<(u64, usize)>,
    /// The distinct system prompts.
    prompts: Vec<DefinedPrompt>,
    /// The places of the system prompts, by the revisions that hold the texts which they are made of.
    places: HashMap<[u32; PROMPT_ASPECTS.len()], usize>,
}

/// The aspects that a system prompt is rendered from.
const PROMPT_ASPECTS: [Aspect; 3] = [Aspect::SystemPrompt, Aspect::Tools, Aspect::Agents];

/// A system prompt, of which digests are kept: a text for each revision would be far longer than the log that it is read
/// from. It is rendered when an inference names its revision.
struct DefinedPrompt {
    /// The first revision that has it.
    revision: u32,
    digest: OnceCell<Digest>,
    /// The newest hint of a task's flow, and the digest of the prompt with it.
    hinted: RefCell<Option<(String, Digest)>>,
}

impl DefinedPrompt {
    fn from_revision(revision: u32) -> Self {
        Self { revision, digest: OnceCell::new(), hinted: RefCell::default() }
    }

    /// Returns the digest of the prompt with a hint of a task's flow.
    fn digest(&self, hint: Option<&str>, render: impl FnOnce(u32) -> String) -> Digest {
        let Some(hint) = hint else {
            return *self.digest.get_or_init(|| Digest::compute(render(self.revision).as_bytes()));
        };
        let mut hinted = self.hinted.borrow_mut();
        if let Some((known, digest)) = hinted.as_ref()
            && known == hint
        {
            return *digest;
        }
        let digest = Digest::compute(with_hint(&render(self.revision), Some(hint)).as_bytes());
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
        let before = self.rendered.partition_point(|(of, _)| *of < epoch);
        let its = |of: &&(u64, usize)| of.0 == epoch;
        let began_with = before.checked_sub(1).and_then(|at| self.rendered.get(at));
        let own = self.rendered.get(before..).unwrap_or_default().iter().take_while(its);
        let mut places: Vec<usize> = began_with.into_iter().chain(own).map(|(_, place)| *place).collect();
        places.dedup();
        let prompts = places.into_iter().filter_map(|place| self.prompts.get(place));
        { prompts }.any(|prompt| prompt.digest(hint, |revision| self.render(revision)) == system)
    }

    /// Whether the schema of a tool has this value as a default, in any revision that offers the tool. What a definition
    /// does not tell is not held against a call.
    pub(crate) fn has_default(&self, tool: &str, value: &JsonValue) -> bool {
        let schemas = |number: u32| {
            let offer = Offer::from_definition(self.history.revision(number)?).ok()?;
            offer.tools.into_iter().find(|offered| offered.name == tool).map(|offered| offered.input_schema)
        };
        let mut known = (1..=self.number()).rev().filter_map(schemas).peekable();
        known.peek().is_none() || known.any(|schema| has_default(&schema, value))
    }

    /// Renders the system prompt of a revision; a definition that cannot be read has none.
    fn render(&self, revision: u32) -> String {
        let definition = self.history.revision(revision);
        definition
            .and_then(|definition| Offer::from_definition(definition).ok())
            .as_ref()
            .map(system_prompt)
            .unwrap_or_default()
    }

    /// Takes the agent's next event, of the record with this leaf hash and epoch.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(
        &mut self,
        event: &AgentEvent,
        record: Digest,
        epoch: u64,
    ) -> Result<(), String> {
        let AgentEvent::Revised(revised) = event;
        let expected = self.number().saturating_add(1);
        let held = revised
            .texts
            .clone()
            .map(|text| (text.since, text.text.as_ref().map(|text| Digest::compute(text.as_bytes()))));
        let fault = self.fault(revised.number, expected, &held);
        self.revisions.push(held);
        self.records.push(record);
        self.history.evolve(event, &Metadata::default());
        for (place, (_, text)) in held.iter().enumerate() {
            text.map(|text| self.holders.entry((place, text)).or_insert(expected));
        }
        let is_read = self.note_prompt(epoch, expected, &held);
        fault.map_or(is_read, Err)
    }

    /// Notes the system prompt of the newest revision.
    fn note_prompt(
        &mut self,
        epoch: u64,
        revision: u32,
        held: &[HeldText; Aspect::ALL.len()],
    ) -> Result<(), String> {
        let since = |aspect: Aspect| {
            let place = Aspect::ALL.iter().position(|other| *other == aspect);
            place.and_then(|place| held.get(place)).map_or(0, |(since, _)| *since)
        };
        let texts = PROMPT_ASPECTS.map(since);
        let (next, is_new) = (self.prompts.len(), !self.places.contains_key(&texts));
        let place = *self.places.entry(texts).or_insert(next);
        self.rendered.push((epoch, place));
        if !is_new {
            return Ok(());
        }
        self.prompts.push(DefinedPrompt::from_revision(revision));
        let newest = self.history.newest().cloned().unwrap_or_default();
        Offer::from_definition(&newest).map(drop).map_err(|error| error.to_string())
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
            let again = text.filter(|_| is_own).and_then(|text| self.holders.get(&(place, text)));
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
    use proto_events::definition::{DefinitionRevision, RevisedText};

    use super::*;

    /// Returns a revision in which each text is named by its holder, or new.
    fn revised(number: u32, texts: [(u32, Option<&str>); Aspect::ALL.len()]) -> AgentEvent {
        let texts = texts.map(|(since, text)| RevisedText { since, text: text.map(Into::into) });
        AgentEvent::Revised(Box::new(DefinitionRevision { number, texts }))
    }

    /// Returns a check of an agent whose revisions of these epochs differ in the system prompt.
    fn check_of(epochs: &[u64]) -> AgentCheck {
        let mut check = AgentCheck::default();
        for (number, epoch) in (1..).zip(epochs) {
            let prompt = format!("prompt {number}");
            let rest = |text| if number == 1 { (1, Some(text)) } else { (1, None) };
            let texts = [rest("m/m"), (number, Some(prompt.as_str())), rest("[]"), rest("[]"), rest("{}")];
            check.accept_event(&revised(number, texts), Digest::default(), *epoch).unwrap();
        }
        check
    }

    fn rendered(instructions: &str, hint: Option<&str>) -> Digest {
        let offer = Offer { instructions: instructions.to_owned(), ..Offer::default() };
        Digest::compute(with_hint(&system_prompt(&offer), hint).as_bytes())
    }

    #[test]
    fn the_digest_of_a_prompt_is_that_of_its_text_with_the_hint_whatever_was_asked_before() {
        let check = check_of(&[1]);
        for hint in [None, Some("first"), Some("second"), None, Some("second"), Some("first")] {
            assert!(check.renders(1, hint, rendered("prompt 1", hint)), "{hint:?}");
            assert!(!check.renders(1, hint, rendered("prompt 1", Some("other"))), "{hint:?}");
        }
    }

    #[test]
    fn a_program_renders_what_it_began_with_and_what_it_recorded() {
        let check = check_of(&[1, 3, 3, 5]);
        let in_epoch = |epoch| {
            let is_its = |of: &u32| check.renders(epoch, None, rendered(&format!("prompt {of}"), None));
            (1..=4).filter(is_its).collect::<Vec<u32>>()
        };
        assert_eq!([1, 2, 3, 4, 5].map(in_epoch), [vec![1], vec![1], vec![1, 2, 3], vec![3], vec![3, 4]]);
    }

    #[test]
    fn ten_thousand_revisions_of_one_long_prompt_have_one_prompt() {
        let long = "x".repeat(1024 * 1024);
        let mut check = AgentCheck::default();
        let first =
            [(1, Some("m/m")), (1, Some(long.as_str())), (1, Some("[]")), (1, Some("[]")), (1, Some("{}"))];
        check.accept_event(&revised(1, first), Digest::default(), 1).unwrap();
        for number in 2..=10_000 {
            let parameters = format!(r#"{{"n":{number}}}"#);
            let texts = [(1, None), (1, None), (1, None), (1, None), (number, Some(parameters.as_str()))];
            check.accept_event(&revised(number, texts), Digest::default(), 1).unwrap();
        }
        assert_eq!((check.prompts.len(), check.rendered.len()), (1, 10_000));
        assert!(check.renders(1, None, rendered(&long, None)));
        let again = [(1, None), (1, None), (1, None), (1, None), (10_001, Some(r#"{"n":77}"#))];
        let fault = check.accept_event(&revised(10_001, again), Digest::default(), 1).unwrap_err();
        assert!(fault.contains("held by revision 77 already"), "{fault}");
    }
}
