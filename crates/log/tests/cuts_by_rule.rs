//! The rules that stand for cuts in an intent: they render exactly what the strategy showed, for any history, and an intent does not
//! grow with the results of a long conversation.

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use proto_events::call::{CutRule, Selection};
    use proto_events::json::JsonText;
    use proto_events::model::{LlmMessage, LlmRole};
    use taskreel_log::artifacts::CharacterLimit;
    use taskreel_log::context::{
        Chain, ContextStrategy, ConversationFacts, FitContextWindow, History, MinimizeOutputs, Reduction,
        ResultPlace, Rules, TruncateToolOutputs, View, select, sent_text,
    };
    use taskreel_log::ports::Ports;

    /// A message of a role, whose text is one of these or a long one, and which may say where its result stands.
    fn message() -> impl Strategy<Value = LlmMessage> {
        let role = prop_oneof![
            1 => Just(LlmRole::User),
            1 => Just(LlmRole::Assistant),
            1 => Just(LlmRole::System),
            4 => Just(LlmRole::Tool)
        ];
        let text = prop_oneof![
            "[a-z\"é]{0,30}".prop_map(|text| text),
            ("[a-z\n\"é]{1,9}", 1_usize..400).prop_map(|(text, times)| text.repeat(times)),
            (1_usize..60).prop_map(|rows| {
                let row = |n| format!("{{\"name\": \"person {n}\", \"age\": {n}}}");
                format!("[{}]", (0..rows).map(row).collect::<Vec<_>>().join(","))
            }),
            (1_usize..60).prop_map(|times| format!(
                "{{\"type\": \"tool_result\", \"tool\": \"t\", \"result\": \"{}\"}}",
                "word ".repeat(times)
            )),
        ];
        let place = proptest::option::weighted(0.6, (("[a-z]{1,9}", "[a-z]{1,40}"), any::<bool>()));
        (role, text, place).prop_map(|(role, text, place)| {
            let mut message = LlmMessage::new(role, text, &mut Ports::default());
            match role {
                LlmRole::Assistant => {
                    message.tool_calls = JsonText::parse(r#"[{"id":"c","function":{"name":"t"}}]"#).unwrap();
                }
                LlmRole::Tool => message.metadata.set("tool_call_id", JsonText::string("c")),
                _ => {}
            }
            if let Some(((task_id, call_id), is_text)) = place {
                ResultPlace { task_id, call_id, is_text }.note_in(&mut message.metadata);
            }
            message
        })
    }

    fn strategy() -> impl Strategy<Value = Arc<dyn ContextStrategy>> {
        let minimize = |limit| MinimizeOutputs::new(CharacterLimit::new(limit).unwrap());
        let truncate = |chars| TruncateToolOutputs::new(chars).unwrap();
        prop_oneof![
            (2_usize..600).prop_map(move |limit| arc(minimize(limit))),
            (1_i64..600).prop_map(move |chars| arc(truncate(chars))),
            (1_i64..600).prop_map(move |chars| arc(truncate(chars).rules(Rules::Agentix))),
            (2_usize..600, 1_i64..600).prop_map(move |(limit, chars)| {
                arc(Chain::new(minimize(limit)).then(truncate(chars).marker("..")))
            }),
            (2_usize..600, 1_i64..600, 1_i64..3_000).prop_map(move |(limit, chars, tokens)| {
                let fit = FitContextWindow::new(tokens).unwrap();
                arc(Chain::new(minimize(limit)).then(truncate(chars)).then(fit))
            }),
        ]
    }

    fn arc(strategy: impl ContextStrategy) -> Arc<dyn ContextStrategy> {
        Arc::new(strategy)
    }

    /// Returns the text of each kept message in the view of the strategy.
    fn viewed(strategy: &dyn ContextStrategy, messages: &[LlmMessage]) -> Option<Vec<(u32, String)>> {
        let mut facts = ConversationFacts::new();
        let mut history = History::new(&messages, &mut facts);
        let view = match strategy.reduce(&mut history).ok()? {
            Reduction::Unchanged => View::all_whole(u32::try_from(messages.len()).unwrap()),
            Reduction::View(view) => view,
        };
        history.set_view(view.clone());
        Some(view.numbers().map(|number| (number, history.text(number).unwrap())).collect())
    }

    /// Returns the text of each kept message as the selection alone renders it.
    fn rendered(selection: Option<&Selection>, messages: &[LlmMessage]) -> Vec<(u32, String)> {
        let mut before = None;
        let mut sent = Vec::new();
        for (number, message) in (0_u32..).zip(messages) {
            let before = before.replace(message.role);
            if selection.is_some_and(|selection| !selection.keeps(number)) {
                continue;
            }
            let text = selection.and_then(|selection| sent_text(selection, number, message, before));
            sent.push((number, text.map_or_else(|| message.content.clone(), |sent| sent.text.into_owned())));
        }
        sent
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn rules_render_exactly_what_the_strategy_showed(
            strategy in strategy(), messages in proptest::collection::vec(message(), 0..40),
        ) {
            let Some(viewed) = viewed(&*strategy, &messages) else { return Ok(()) };
            let selection = select(&*strategy, &messages.as_slice(), &mut ConversationFacts::new()).unwrap();
            if let Some(selection) = &selection {
                prop_assert!(selection.count_of(u32::try_from(messages.len()).unwrap()).is_ok());
            }
            prop_assert_eq!(rendered(selection.as_ref(), &messages), viewed);
        }
    }

    /// Returns a message that asks for as many calls, and their results.
    fn results(count: usize) -> Vec<LlmMessage> {
        let id = |n: usize| format!("call_{n:08}");
        let ask = |n| {
            format!(r#"{{"id":"{}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#, id(n))
        };
        let asks = (0..count).map(ask).collect::<Vec<_>>().join(",");
        let mut asking = LlmMessage::new(LlmRole::Assistant, String::new(), &mut Ports::default());
        asking.tool_calls = JsonText::parse(&format!("[{asks}]")).unwrap();
        let result = |n: usize| {
            // Every tenth is short.
            let text = if n.is_multiple_of(10) { "ok".to_owned() } else { format!("{n} ").repeat(2_000 + n) };
            let mut message =
                LlmMessage::new(LlmRole::Tool, JsonText::string(&text).as_str(), &mut Ports::default());
            message.metadata.set("tool_call_id", JsonText::string(&id(n)));
            let (task_id, call_id) = (format!("task-{}", n / 7), id(n));
            ResultPlace { task_id, call_id, is_text: true }.note_in(&mut message.metadata);
            message
        };
        std::iter::once(asking).chain((0..count).map(result)).collect()
    }

    #[test]
    fn an_intent_does_not_grow_with_the_results_that_are_cut() {
        let minimize = || MinimizeOutputs::new(CharacterLimit::new(2_000).unwrap());
        let truncate = || TruncateToolOutputs::new(1_000).unwrap();
        let cases: [(Arc<dyn ContextStrategy>, CutRule); 3] = [
            (arc(minimize()), CutRule::Minimized),
            (arc(truncate()), CutRule::Head),
            (arc(Chain::new(minimize()).then(truncate())), CutRule::HeadWithTip),
        ];
        for (strategy, rule) in cases {
            let messages = results(400);
            let selection =
                select(&*strategy, &messages.as_slice(), &mut ConversationFacts::new()).unwrap().unwrap();
            let rules: Vec<_> = selection.rules.iter().map(|rule| (rule.rule, rule.except.len())).collect();
            assert_eq!(rules.first(), Some(&(rule, 0)), "{}", strategy.name());
            let named = selection.cuts.len() + selection.markers.len() + selection.rules.len();
            // Tips with a longer task id leave room for fewer characters, and are cuts of their own.
            let own = if rule == CutRule::HeadWithTip { 100 } else { 0 };
            assert!(named <= own + 3, "{}: {named} of {rules:?}", strategy.name());
        }
    }
}
