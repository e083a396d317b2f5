//! Context strategies over any history: pairs stay whole, what is sent is bounded, a second pass changes nothing, and the
//! newest question is always sent.

#[cfg(test)]
mod properties {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proto_events::json::JsonText;
    use proto_events::model::LlmRole;
    use taskreel_log::artifacts::CharacterLimit;
    use taskreel_log::context::{
        Chain, Content, ContentPart, ContextError, ContextStrategy, Counting, Facts, FitContextWindow,
        History, MessageView, MinimizeOutputs, Reduction, Rules, TokenCounter, Transcript, TrimRounds,
        TruncateToolOutputs, View, select,
    };

    #[derive(Debug, Clone)]
    struct Message {
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
    }

    /// Returns the note of where a result stands in the log.
    fn source() -> JsonText {
        JsonText::parse(r#"{"task_id":"t","artifact_id":"c","kind":"text"}"#).unwrap()
    }

    /// A counter of one token for each byte, and one for each text: no count can be made from another.
    struct Bytes;

    impl TokenCounter for Bytes {
        fn name(&self) -> String {
            "bytes".to_owned()
        }

        fn tokens(&self, text: &str) -> u64 {
            text.len() as u64 + 1
        }
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
            let asks = role == LlmRole::Assistant && !ids.is_empty();
            let calls: Vec<String> = ids
                .iter()
                .map(|id| format!(r#"{{"id":"{id}","function":{{"name":"t","arguments":"{{\"q\":1}}"}}}}"#))
                .collect();
            let content = match kind {
                0 => Err(vec![ContentPart::Text(text), ContentPart::Media]),
                _ => Ok(text),
            };
            Message {
                role,
                content,
                calls: asks.then(|| JsonText::parse(&format!("[{}]", calls.join(","))).unwrap()),
                ids: if asks { ids } else { Vec::new() },
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

    /// Each strategy of the default rules, with settings from small to sufficient.
    fn strategy() -> impl Strategy<Value = (std::sync::Arc<dyn ContextStrategy>, Option<i64>)> {
        let fit = |max: i64| FitContextWindow::new(max).unwrap().counter(Bytes);
        prop_oneof![
            (1_i64..8).prop_map(|max| (arc(TrimRounds::new(max).unwrap()), None)),
            (1_i64..40).prop_map(|max| (arc(TruncateToolOutputs::new(max).unwrap()), None)),
            (1_i64..900).prop_map(move |max| (arc(fit(max)), Some(max))),
            (1_i64..20, 1_i64..900).prop_map(move |(chars, max)| {
                (arc(Chain::of(TruncateToolOutputs::new(chars).unwrap()).then(fit(max))), Some(max))
            }),
            (2_usize..300).prop_map(|limit| (arc(minimizing(limit)), None)),
            (2_usize..300, 1_i64..9_000).prop_map(move |(limit, max)| {
                (arc(Chain::of(minimizing(limit)).then(fit(max))), Some(max))
            }),
            (2_usize..300, 1_i64..600).prop_map(move |(limit, chars)| {
                (arc(Chain::of(minimizing(limit)).then(TruncateToolOutputs::new(chars).unwrap())), None)
            }),
            (1_i64..8, 1_i64..900).prop_map(move |(rounds, max)| {
                (arc(Chain::of(fit(max)).then(TrimRounds::new(rounds).unwrap())), Some(max))
            }),
        ]
    }

    fn minimizing(limit: usize) -> MinimizeOutputs {
        MinimizeOutputs::new(CharacterLimit::new(limit).unwrap())
    }

    fn arc(strategy: impl ContextStrategy) -> std::sync::Arc<dyn ContextStrategy> {
        std::sync::Arc::new(strategy)
    }

    fn reduced(strategy: &dyn ContextStrategy, messages: &Messages) -> Result<View, ContextError> {
        let mut facts = Facts::new();
        let mut history = History::new(messages, &mut facts);
        Ok(match strategy.reduce(&mut history)? {
            Reduction::Unchanged => View::whole(messages.count()),
            Reduction::View(view) => view,
        })
    }

    /// Returns what is sent.
    fn sent(messages: &Messages, view: &View) -> Messages {
        let mut facts = Facts::new();
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
            let Some(id) = message.answers.as_ref().and_then(JsonText::to_str) else { continue };
            match messages.all[..at].iter().rposition(|earlier| earlier.ids.contains(&id)) {
                Some(asker) => pairs.push((asker, at)),
                None => drop(orphans.insert(at)),
            }
        }
        (pairs, orphans)
    }

    fn newest_question(messages: &Messages) -> Option<usize> {
        let head = messages.all.iter().take_while(|message| message.role == LlmRole::System).count();
        let newest = messages.all.iter().rposition(|message| message.role == LlmRole::User);
        newest.filter(|at| *at >= head)
    }

    fn tokens(messages: &Messages) -> i64 {
        let counting = Counting::with(Bytes);
        let system = messages.system.as_ref().map_or(0, |text| counting.system(text));
        (0..messages.count()).fold(system, |sum, at| sum + counting.message(&messages.message(at).unwrap()))
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
            if let Some(max) = max {
                prop_assert!(tokens(&sent(&messages, &view)) <= max);
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
        fn a_refusal_says_what_must_be_sent(max in 1_i64..300, messages in messages()) {
            let strategy = FitContextWindow::new(max).unwrap().counter(Bytes);
            if let Err(error) = reduced(&strategy, &messages) {
                let ContextError::DoesNotFit { needed, limit } = error else { panic!("{error}") };
                prop_assert!(needed > limit && limit == u64::try_from(max).unwrap());
                let enough = FitContextWindow::new(i64::try_from(needed).unwrap()).unwrap().counter(Bytes);
                prop_assert!(reduced(&enough, &messages).is_ok());
            }
        }

        #[test]
        fn what_is_known_of_a_history_that_grew_is_what_a_fresh_reading_knows(
            (strategy, _) in strategy(), messages in messages(), grown in 0_usize..40,
        ) {
            let mut facts = Facts::new();
            let mut part = messages.clone();
            part.all.truncate(grown);
            let _ = select(&*strategy, &part, &mut facts);
            facts.settle(part.all.len() / 2);
            let known = select(&*strategy, &messages, &mut facts);
            prop_assert_eq!(known, select(&*strategy, &messages, &mut Facts::new()));
        }

        #[test]
        fn agentixs_rules_answer_any_history_and_what_parts_a_pair_is_never_sent(
            max in 1_i64..300, rounds in 1_i64..6, messages in messages(),
        ) {
            let fit = FitContextWindow::new(max).unwrap().counter(Bytes).rules(Rules::Agentix);
            let trim = TrimRounds::new(rounds).unwrap().rules(Rules::Agentix);
            let cut = TruncateToolOutputs::new(max).unwrap().rules(Rules::Agentix);
            let chain = Chain::of(cut).then(trim).then(fit);
            prop_assert!(reduced(&chain, &messages).is_ok());
            match select(&chain, &messages, &mut Facts::new()) {
                Ok(Some(selection)) => {
                    let keeps = |at: usize| selection.keeps(u32::try_from(at).unwrap());
                    prop_assert!(pairs(&messages).0.iter().all(|(asker, answer)| keeps(*asker) == keeps(*answer)));
                }
                Ok(None) => {}
                Err(error) => prop_assert!(error.to_string().contains("cannot be sent"), "{}", error),
            }
        }
    }
}
