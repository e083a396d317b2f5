//! The rules that stand for the cuts of a view, so that an intent does not name each answer of a long history: an agent with a
//! thousand long results would otherwise write a thousand cuts at every inference.

use std::collections::HashMap;

use proto_events::call::{Cut, CutRule, MessageRule};
use proto_events::model::LlmRole;

use crate::context::history::History;
use crate::context::view::View;

/// The cuts of a view, some of them as rules. Each message is cut by its own cut, else by the first rule that applies to it and does
/// not except it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CutsByRule {
    pub(crate) rules: Vec<MessageRule>,
    pub(crate) cuts: Vec<Cut>,
}

/// The facts about a message that decide whether a rule applies to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageFacts<'a> {
    /// The role of the speaker.
    pub(crate) role: LlmRole,
    /// The role of the message before it in the whole history.
    pub(crate) before: Option<LlmRole>,
    /// The characters of the whole text.
    pub(crate) characters: u64,
    /// The tip for the message; empty where it does not say where its result stands in the log.
    pub(crate) tip: &'a str,
}

/// Whether a rule applies to a message. A minimized form that is not shorter than the whole text is not sent either.
pub(crate) fn applies(rule: &MessageRule, marker: &str, told: MessageFacts<'_>) -> bool {
    let behind = |texts: [&str; 2]| texts.map(|text| text.chars().count() as u64).into_iter().sum::<u64>();
    let is_longer_with = |more: u64| told.characters > rule.characters.saturating_add(more);
    match rule.rule {
        CutRule::Head => {
            let is_answer = told.role == LlmRole::Tool
                || (told.role == LlmRole::System && told.before == Some(LlmRole::Assistant));
            is_answer && is_longer_with(behind([marker, ""]))
        }
        CutRule::HeadWithTip => !told.tip.is_empty() && is_longer_with(behind([marker, told.tip]) + 1),
        CutRule::Minimized => !told.tip.is_empty() && is_longer_with(0),
    }
}

/// The rule, the characters and the marker by which cuts are alike.
type Group = (CutRule, u64, Option<u32>);

fn group_of(cut: &Cut) -> Group {
    (cut.rule, cut.characters, cut.marker)
}

impl CutsByRule {
    /// Finds the rules for a view: of each kind the one that stands for most cuts, unless it would have as many exceptions.
    pub(crate) fn new(history: &History<'_>, view: &View) -> Self {
        let mut groups: HashMap<Group, usize> = HashMap::new();
        for cut in view.cuts() {
            *groups.entry(group_of(cut)).or_default() += 1;
        }
        let largest = [CutRule::Minimized, CutRule::HeadWithTip, CutRule::Head].map(|rule| {
            let of_rule = groups.iter().filter(|((of, ..), count)| *of == rule && **count > 1);
            of_rule.max_by_key(|(group, count)| (**count, std::cmp::Reverse((group.1, group.2))))
        });
        let rules = largest.into_iter().flatten().map(|((rule, characters, marker), _)| MessageRule {
            rule: *rule,
            characters: *characters,
            marker: *marker,
            except: Vec::new(),
        });
        let mut by = Self { rules: rules.collect(), cuts: Vec::new() };
        if by.rules.is_empty() {
            return Self { cuts: view.cuts().to_vec(), ..by };
        }
        view.numbers().for_each(|number| by.accept_message(history, view, number));
        let exceptions: usize = by.rules.iter().map(|rule| rule.except.len()).sum();
        if by.cuts.len() + exceptions < view.cuts().len() {
            by
        } else {
            Self { rules: Vec::new(), cuts: view.cuts().to_vec() }
        }
    }

    /// Takes over what a view does with a message: by a rule, as an exception from rules, or as a cut of its own.
    fn accept_message(&mut self, history: &History<'_>, view: &View, number: u32) {
        let cut = view.cut_of(number);
        let ruled = cut.map(|cut| self.rules.iter().position(|rule| rule_group(rule) == group_of(&cut)));
        let end = match (cut, ruled.flatten()) {
            (None, _) => self.rules.len(),
            (Some(_), Some(at))
                if self.rules.get(at).is_some_and(|rule| is_cut(history, view, rule, number)) =>
            {
                at
            }
            (Some(cut), _) => return self.cuts.push(cut),
        };
        for rule in self.rules.iter_mut().take(end) {
            if is_cut(history, view, rule, number) {
                rule.except.push(number);
            }
        }
    }
}

fn rule_group(rule: &MessageRule) -> Group {
    (rule.rule, rule.characters, rule.marker)
}

/// Whether a rule cuts a message.
fn is_cut(history: &History<'_>, view: &View, rule: &MessageRule, number: u32) -> bool {
    let Some(cut) = rule.cut_of(number) else { return false };
    let Some(speaker) = history.role(number) else { return false };
    let before = number.checked_sub(1).and_then(|before| history.role(before));
    let (characters, tip) = (history.whole_characters(number), history.tip(number));
    let told = MessageFacts { role: speaker, before, characters, tip };
    applies(rule, view.marker_of(cut), told)
        && (cut.rule != CutRule::Minimized || history.minimized(number, cut) < told.characters)
}
