//! Context strategies over any history: pairs stay whole, what is sent is bounded, a second pass changes nothing, and the
//! newest question is always sent.

#[cfg(test)]
mod properties {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;
    use proto_events::json::JsonText;
    use proto_events::model::LlmRole;
    use taskreel_log::artifacts::CharacterLimit;
    use taskreel_log::context::{
        Chain, Content, ContentPart, ContextError, ContextStrategy, ConversationFacts, FitContextWindow,
        History, MessageMeasure, MessageView, MinimizeOutputs, Reduction, Rules, TokenCounter, Transcript,
        TrimRounds, TruncateToolOutputs, View, select,
    };

    #[derive(Debug, Clone)]
    struct Message {
        id: Option<String>,
        role: LlmRole,
        content: Result<String, Vec<ContentPart>>,
        calls: Option<JsonText>,
        ids: Vec<String>,
        answers: Option<JsonText>,
        source: Option<JsonText>,
    }

    #[derive(Debug, Clone)]
    struct Messages {
        system: Option<String>,
        all: Vec<Message>,
    }

    impl Transcript for Messages {
        fn system(&self) -> Option<&str> {
            self.system.as_deref()
        }

        fn count(&self) -> u32 {
            u32::try_from(self.all.len()).unwrap()
        }

        fn message(&self, number: u32) -> Option<MessageView<'_>> {
            let message = self.all.get(number as usize)?;
            let content = match &message.content {
                Ok(text) => Content::Text(text),
                Err(parts) => Content::Parts(parts),
            };
            let (calls, answers) = (message.calls.as_ref(), message.answers.as_ref());
            Some(MessageView { role: message.role, content, calls, answers })
        }

        fn source(&self, number: u32) -> Option<&JsonText> {
            self.all.get(number as usize)?.source.as_ref()
        }

        fn id(&self, number: u32) -> Option<&str> {
            self.all.get(number as usize)?.id.as_deref()
        }
    }

    /// Returns the note of where a result stands in the log.
    fn source() -> JsonText {
        JsonText::parse(r#"{"task_id":"t","artifact_id":"c","kind":"text"}"#).unwrap()
    }

    /// Counters of a host.
    #[derive(Debug, Clone, Copy)]
    enum Counter {
        /// A counter of one token for each byte, and one for each text: no count can be made from another.
        Bytes,
        /// A counter of one token for each character, and one for each text, but of as many as there can be for a text that is
        /// longer than this.
        Steep(usize),
    }

    impl TokenCounter for Counter {
        fn name(&self) -> String {
            format!("{self:?}")
        }

        fn tokens(&self, text: &str) -> u64 {
            match self {
                Self::Bytes => text.len() as u64 + 1,
                Self::Steep(most) if text.chars().count() > *most => u64::MAX,
                Self::Steep(_) => text.chars().count() as u64 + 1,
            }
        }
    }

    fn counter() -> impl Strategy<Value = Counter> {
        prop_oneof![2 => Just(Counter::Bytes), 1 => (0_usize..60).prop_map(Counter::Steep)]
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zé😀]{0,40}",
            "[a-z]{0,30}".prop_map(|text| text + "...[truncated]"),
            Just(String::new()),
            "[a-z\"é]{1,9}".prop_map(|text| text.repeat(120)),
        ]
    }

    fn message() -> impl Strategy<Value = Message> {
        let role = prop_oneof![
            3 => Just(LlmRole::User),
            4 => Just(LlmRole::Assistant),
            4 => Just(LlmRole::Tool),
            1 => Just(LlmRole::System),
        ];
        let ids = proptest::collection::btree_set(0_u8..4, 0..3);
        (role, text(), ids, 0_u8..4, 0_u8..20).prop_map(|(role, text, ids, answers, kind)| {
            let ids: Vec<String> = ids.iter().map(|id| format!("c{id}")).collect();
            // What another than the model says of calls is no wish for one.
            let says = !ids.is_empty() && (role == LlmRole::Assistant || kind == 3);
            let calls: Vec<String> = ids
                .iter()
                .map(|id| format!(r#"{{"id":"{id}","function":{{"name":"t","arguments":"{{\"q\":1}}"}}}}"#))
                .collect();
            let content = match kind {
                0 => Err(vec![ContentPart::Text(text), ContentPart::Media]),
                _ => Ok(text),
            };
            Message {
                id: None,
                role,
                content,
                calls: says.then(|| JsonText::parse(&format!("[{}]", calls.join(","))).unwrap()),
                ids: if role == LlmRole::Assistant { ids } else { Vec::new() },
                answers: (role == LlmRole::Tool && kind != 1)
                    .then(|| JsonText::string(&format!("c{answers}"))),
                source: (matches!(role, LlmRole::Tool | LlmRole::System) && kind != 2).then(source),
            }
        })
    }

    fn messages() -> impl Strategy<Value = Messages> {
        (proptest::option::of("[a-z]{0,20}"), proptest::collection::vec(message(), 0..40))
            .prop_map(|(system, all)| Messages { system, all })
    }

    /// A strategy, and the tokens that it never exceeds.
    type Bounded = (Arc<dyn ContextStrategy>, Option<(i64, MessageMeasure)>);

    /// Each strategy of the default rules, with settings from small to sufficient.
    fn strategy() -> impl Strategy<Value = Bounded> {
        let fit = |max: i64, counter: Counter| FitContextWindow::new(max).unwrap().counter(counter);
        let within = |max: i64, counter: Counter| Some((max, MessageMeasure::with(counter)));
        prop_oneof![
            (1_i64..8).prop_map(|max| (arc(TrimRounds::new(max).unwrap()), None)),
            (1_i64..40).prop_map(|max| (arc(TruncateToolOutputs::new(max).unwrap()), None)),
            (1_i64..900, counter()).prop_map(move |(max, by)| (arc(fit(max, by)), within(max, by))),
            (1_i64..20, 1_i64..900, counter()).prop_map(move |(chars, max, by)| {
                let truncate = TruncateToolOutputs::new(chars).unwrap();
                (arc(Chain::new(truncate).then(fit(max, by))), within(max, by))
            }),
            (2_usize..300).prop_map(|limit| (arc(minimizing(limit)), None)),
            (2_usize..300, 1_i64..9_000, counter()).prop_map(move |(limit, max, by)| {
                (arc(Chain::new(minimizing(limit)).then(fit(max, by))), within(max, by))
            }),
            (2_usize..300, 1_i64..600).prop_map(move |(limit, chars)| {
                (arc(Chain::new(minimizing(limit)).then(TruncateToolOutputs::new(chars).unwrap())), None)
            }),
            (1_i64..8, 1_i64..900, counter()).prop_map(move |(rounds, max, by)| {
                (arc(Chain::new(fit(max, by)).then(TrimRounds::new(rounds).unwrap())), within(max, by))
            }),
            (1_i64..900, 1_i64..900, counter(), counter()).prop_map(move |(first, max, one, by)| {
                (arc(Chain::new(fit(first, one)).then(fit(max, by))), within(max, by))
            }),
        ]
    }

    fn minimizing(limit: usize) -> MinimizeOutputs {
        MinimizeOutputs::new(CharacterLimit::new(limit).unwrap())
    }

    fn arc(strategy: impl ContextStrategy) -> Arc<dyn ContextStrategy> {
        Arc::new(strategy)
    }

    fn reduced(strategy: &dyn ContextStrategy, messages: &Messages) -> Result<View, ContextError> {
        let mut facts = ConversationFacts::new();
        let mut history = History::new(messages, &mut facts);
        Ok(match strategy.reduce(&mut history)? {
            Reduction::Unchanged => View::all_whole(messages.count()),
            Reduction::View(view) => view,
        })
    }

    /// Returns what is sent.
    fn sent(messages: &Messages, view: &View) -> Messages {
        let mut facts = ConversationFacts::new();
        let mut history = History::new(messages, &mut facts);
        history.set_view(view.clone());
        let sent = view.numbers().map(|number| {
            let message = messages.all[number as usize].clone();
            let content = history.text(number).map_or_else(|| message.content.clone(), Ok);
            // What is sent in place of a result is no result any more.
            let source = message.source.clone().filter(|_| view.cut_of(number).is_none());
            Message { content, source, ..message }
        });
        Messages { system: messages.system.clone(), all: sent.collect() }
    }

    /// The pairs of a call and its answer, and the answers without a call.
    fn pairs(messages: &Messages) -> (Vec<(usize, usize)>, BTreeSet<usize>) {
        let (mut pairs, mut orphans) = (Vec::new(), BTreeSet::new());
        for (at, message) in messages.all.iter().enumerate() {
            let before = at.checked_sub(1);
            let follows = before.filter(|before| messages.all[*before].role == LlmRole::Assistant);
            let id = message.answers.as_ref().and_then(JsonText::to_str);
            let asks = |earlier: &Message| id.as_ref().is_some_and(|id| earlier.ids.contains(id));
            match (message.role, messages.all[..at].iter().rposition(asks), follows) {
                (LlmRole::Tool, Some(asker), _) | (LlmRole::System, _, Some(asker)) => {
                    pairs.push((asker, at));
                }
                (LlmRole::Tool, None, _) => drop(orphans.insert(at)),
                _ => {}
            }
        }
        (pairs, orphans)
    }

    fn newest_question(messages: &Messages) -> Option<usize> {
        let head = messages.all.iter().take_while(|message| message.role == LlmRole::System).count();
        let newest = messages.all.iter().rposition(|message| message.role == LlmRole::User);
        newest.filter(|at| *at >= head)
    }

    fn tokens(messages: &Messages, counting: &MessageMeasure) -> i64 {
        let system = messages.system.as_ref().map_or(0, |text| counting.system(text));
        let each = (0..messages.count()).map(|at| counting.message(&messages.message(at).unwrap()));
        each.fold(system, i64::saturating_add)
    }

    /// Returns the messages with ids that begin like this.
    fn named(messages: &Messages, begin: &str) -> Messages {
        let named = |(at, message): (usize, &Message)| Message {
            id: Some(format!("{begin}{at}")),
            ..message.clone()
        };
        Messages {
            system: messages.system.clone(),
            all: messages.all.iter().enumerate().map(named).collect(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn pairs_questions_and_bounds_hold((strategy, max) in strategy(), messages in messages()) {
            let Ok(view) = reduced(&*strategy, &messages) else { return Ok(()) };
            let keeps = |at: usize| view.keeps(u32::try_from(at).unwrap());
            let (pairs, orphans) = pairs(&messages);
            for (asker, answer) in pairs {
                prop_assert_eq!(keeps(asker), keeps(answer), "the call of {} and its answer {}", asker, answer);
            }
            for orphan in orphans {
                prop_assert!(!keeps(orphan), "the orphan {}", orphan);
            }
            prop_assert!(newest_question(&messages).is_none_or(keeps));
            if let Some((max, counting)) = max {
                prop_assert!(tokens(&sent(&messages, &view), &counting) <= max);
            }
            let head = messages.all.iter().take_while(|message| message.role == LlmRole::System).count();
            let first = (head..messages.all.len()).find(|at| keeps(*at) && messages.all[*at].role != LlmRole::System);
            if let Some(first) = first.filter(|first| messages.all[*first].role != LlmRole::User) {
                let dropped = messages.all[head..first].iter().any(|message| message.role == LlmRole::User);
                prop_assert!(!dropped, "what is sent begins with the question that it answers");
            }
        }

        #[test]
        fn a_second_pass_changes_nothing((strategy, _) in strategy(), messages in messages()) {
            let Ok(view) = reduced(&*strategy, &messages) else { return Ok(()) };
            let once = sent(&messages, &view);
            let twice = reduced(&*strategy, &once).unwrap();
            prop_assert!(twice.is_whole(once.count()), "{:?} of {:?}", twice, once);
        }

        #[test]
        fn an_intent_names_no_limit_that_its_own_figures_exceed((strategy, _) in strategy(), messages in messages()) {
            match select(&*strategy, &messages, &mut ConversationFacts::new()) {
                Ok(Some(selection)) => {
                    let sizes = selection.sizes.unwrap();
                    prop_assert!(sizes.limit.is_none_or(|limit| sizes.tokens_after <= limit));
                }
                Ok(None) => {}
                Err(error) => prop_assert!(matches!(error, ContextError::DoesNotFit { .. }), "{}", error),
            }
        }

        #[test]
        fn a_refusal_says_what_must_be_sent(max in 1_i64..300, by in counter(), messages in messages()) {
            let strategy = FitContextWindow::new(max).unwrap().counter(by);
            if let Err(error) = reduced(&strategy, &messages) {
                let ContextError::DoesNotFit { needed, limit } = error else { panic!("{error}") };
                prop_assert!(needed > limit && limit == u64::try_from(max).unwrap());
                let enough = FitContextWindow::new(i64::try_from(needed).unwrap()).unwrap().counter(by);
                prop_assert!(reduced(&enough, &messages).is_ok());
            }
        }

        #[test]
        fn what_is_known_of_a_history_that_changed_is_what_a_fresh_reading_knows(
            (strategy, _) in strategy(), has_ids in any::<bool>(), messages in messages(), other in messages(),
            grown in 0_usize..40, settled in 0_usize..40, kept in 0_usize..40,
        ) {
            let (mut first, mut next) = (messages.clone(), other.clone());
            if has_ids {
                (first, next) = (named(&messages, "m"), named(&other, "o"));
            }
            first.all.truncate(grown);
            let mut facts = ConversationFacts::new();
            let _ = select(&*strategy, &first, &mut facts);
            facts.settle(settled);
            // A turn was aborted, or another message stands in the middle; of messages without ids all may be others.
            let kept = if has_ids { kept.max(settled).min(first.all.len()) } else { 0 };
            let all = first.all[..kept].iter().chain(next.all.iter().skip(kept)).cloned().collect();
            let changed = Messages { system: next.system.clone(), all };
            let known = select(&*strategy, &changed, &mut facts);
            prop_assert_eq!(known, select(&*strategy, &changed, &mut ConversationFacts::new()));
            let mut longer = changed.clone();
            longer.all.extend(next.all);
            let known = select(&*strategy, &longer, &mut facts);
            prop_assert_eq!(known, select(&*strategy, &longer, &mut ConversationFacts::new()));
        }

        #[test]
        fn agentixs_rules_keep_the_newest_rounds_and_what_parts_a_pair_is_never_sent(
            max in 1_i64..300, rounds in 1_i64..6, by in counter(), messages in messages(),
        ) {
            let fit = FitContextWindow::new(max).unwrap().counter(by).rules(Rules::Agentix);
            let trim = TrimRounds::new(rounds).unwrap().rules(Rules::Agentix);
            let cut = TruncateToolOutputs::new(max).unwrap().rules(Rules::Agentix);
            let chain = Chain::new(cut).then(trim).then(fit);
            let view = reduced(&chain, &messages).unwrap();
            let head = messages.all.iter().take_while(|message| message.role == LlmRole::System).count();
            let is_task = messages.all.get(head).is_some_and(|message| message.role == LlmRole::User);
            let begin = u32::try_from(head + usize::from(is_task)).unwrap();
            prop_assert!((0..begin).all(|number| view.keeps(number)), "the head and the first task");
            let newest: Vec<u32> = view.numbers().filter(|number| *number >= begin).collect();
            let from = newest.first().copied().unwrap_or(begin);
            prop_assert_eq!(&newest, &(from..messages.count()).collect::<Vec<_>>());
            prop_assert_eq!(newest.is_empty(), begin == messages.count(), "the newest round is kept");
            let opens = |number: &&u32| messages.all[**number as usize].role == LlmRole::Assistant;
            prop_assert!(newest.iter().filter(opens).count() <= usize::try_from(rounds).unwrap());
            prop_assert!(from == begin || opens(&&from), "a kept round begins with its assistant");
            match select(&chain, &messages, &mut ConversationFacts::new()) {
                Ok(Some(selection)) => {
                    prop_assert_eq!(selection.sizes.as_ref().unwrap().limit, None);
                    let keeps = |at: usize| selection.keeps(u32::try_from(at).unwrap());
                    prop_assert!(pairs(&messages).0.iter().all(|(asker, answer)| keeps(*asker) == keeps(*answer)));
                }
                Ok(None) => {}
                Err(error) => prop_assert!(error.to_string().contains("cannot be sent"), "{}", error),
            }
        }
    }
}
