//! Strategies, counters and transcripts of a host: whatever they do, a selection is refused by name or says what is true; and
//! the work that ours do for a history.

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use proto_events::json::JsonText;
    use proto_events::model::{LlmMessage, LlmRole};
    use taskreel_log::artifacts::CharacterLimit;
    use taskreel_log::context::{
        Chain, Content, ContextError, ContextStrategy, ConversationFacts, FitContextWindow, HeuristicTokens,
        History, MessageMeasure, MessageView, MinimizeOutputs, Reduction, ResultPlace, Round, Rules,
        SettingError, TokenCounter, Transcript, TrimRounds, TruncateToolOutputs, divide, select,
    };
    use taskreel_log::ports::Ports;

    fn said(role: LlmRole, text: &str) -> LlmMessage {
        LlmMessage::new(role, text, &mut Ports::default())
    }

    /// A question, a call in the words of the model, the system's answer, and the model's last word.
    fn history() -> Vec<LlmMessage> {
        use LlmRole::{Assistant, System, User};
        [(User, "question"), (Assistant, "call"), (System, "answer"), (Assistant, "last word")]
            .map(|(role, text)| said(role, text))
            .into()
    }

    /// The part of a host's strategy in which it panics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Panics {
        Name,
        Reduce,
        Counting,
        CounterName,
        Counter,
        Limit,
    }

    /// A strategy of a host that drops the first message and panics somewhere, and its counter.
    struct Host {
        panics: Panics,
        counting: MessageMeasure,
    }

    struct Panicking(Panics);

    impl TokenCounter for Panicking {
        fn name(&self) -> String {
            assert_ne!(self.0, Panics::CounterName, "on purpose");
            "host".to_owned()
        }

        fn tokens(&self, text: &str) -> u64 {
            assert!(self.0 != Panics::Counter || text != "last word", "on purpose");
            1
        }
    }

    impl ContextStrategy for Host {
        fn name(&self) -> String {
            assert_ne!(self.panics, Panics::Name, "on purpose");
            "host's own".to_owned()
        }

        fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
            assert_ne!(self.panics, Panics::Reduce, "on purpose");
            Ok(without(history, 0))
        }

        fn counting(&self) -> Option<&MessageMeasure> {
            assert_ne!(self.panics, Panics::Counting, "on purpose");
            Some(&self.counting)
        }

        fn limit(&self) -> Option<u64> {
            assert_ne!(self.panics, Panics::Limit, "on purpose");
            None
        }
    }

    fn without(history: &History<'_>, dropped: u32) -> Reduction {
        let mut view = history.view().clone();
        view.retain(|number| number != dropped);
        Reduction::View(view)
    }

    #[test]
    fn a_panic_anywhere_is_an_error_that_names_the_strategy_and_leaves_no_half_facts() {
        let (messages, mut facts) = (history(), ConversationFacts::new());
        let all = [
            Panics::Name,
            Panics::Reduce,
            Panics::Counting,
            Panics::CounterName,
            Panics::Counter,
            Panics::Limit,
        ];
        for panics in all {
            let host = Host { panics, counting: MessageMeasure::with(Panicking(panics)) };
            let error = select(&host, &messages.as_slice(), &mut facts).unwrap_err();
            let ContextError::Panicked { strategy, why } = &error else { panic!("{panics:?}: {error}") };
            let name = if panics == Panics::Name { "?" } else { "host's own" };
            assert_eq!((strategy.as_str(), why.contains("on purpose")), (name, true), "{panics:?}: {error}");
        }
        let sound = TrimRounds::new(1).unwrap();
        let known = select(&sound, &messages.as_slice(), &mut facts);
        assert_eq!(known, select(&sound, &messages.as_slice(), &mut ConversationFacts::new()));
    }

    /// A strategy that returns what this function does, under a name and with a limit.
    struct Made<F> {
        reduce: F,
        name: String,
        limit: Option<u64>,
    }

    impl<F: Fn(&mut History<'_>) -> Reduction + Send + Sync + 'static> ContextStrategy for Made<F> {
        fn name(&self) -> String {
            self.name.clone()
        }

        fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
            Ok((self.reduce)(history))
        }

        fn limit(&self) -> Option<u64> {
            self.limit
        }
    }

    fn made<F: Fn(&mut History<'_>) -> Reduction>(reduce: F) -> Made<F> {
        Made { reduce, name: "made".to_owned(), limit: None }
    }

    fn refused(strategy: &dyn ContextStrategy) -> String {
        let refused = select(strategy, &history().as_slice(), &mut ConversationFacts::new()).unwrap_err();
        let ContextError::View { strategy: name, why } = refused else { panic!("{refused}") };
        assert_eq!(name, strategy.name());
        why
    }

    #[test]
    fn a_call_in_the_words_of_the_model_is_not_parted_from_the_systems_answer() {
        for dropped in [1, 2] {
            let why = refused(&made(move |history| without(history, dropped)));
            assert!(why.contains("message 2 answers a call, and only one of the two is kept"), "{why}");
        }
        let strategy = made(|history| without(history, 3));
        assert!(select(&strategy, &history().as_slice(), &mut ConversationFacts::new()).unwrap().is_some());
    }

    #[test]
    fn what_a_host_says_of_its_own_view_is_bounded_and_true() {
        let exceeding = Made { limit: Some(9), ..made(|history| without(history, 3)) };
        let why = refused(&exceeding);
        assert!(why.contains("tokens, more than its limit of 9"), "{why}");
        let marked = made(|history| {
            let mut view = history.view().clone();
            view.cut(3, 2, &"!".repeat(20_000));
            Reduction::View(view)
        });
        let why = refused(&marked);
        assert!(why.contains("its markers have 20000 bytes"), "{why}");
        let named = Made { name: "n".repeat(5_000), ..made(|history| without(history, 3)) };
        let selection =
            select(&named, &history().as_slice(), &mut ConversationFacts::new()).unwrap().unwrap();
        assert_eq!(selection.strategy.len(), 1_000);
    }

    #[test]
    fn a_view_that_is_set_and_not_returned_is_no_answer_in_a_chain_either() {
        let sets = || {
            made(|history| {
                let Reduction::View(view) = without(history, 3) else { return Reduction::Unchanged };
                history.set_view(view);
                Reduction::Unchanged
            })
        };
        assert_eq!(select(&sets(), &history().as_slice(), &mut ConversationFacts::new()), Ok(None));
        let chain = Chain::new(sets()).then(TrimRounds::new(9).unwrap());
        assert_eq!(select(&chain, &history().as_slice(), &mut ConversationFacts::new()), Ok(None));
    }

    #[test]
    fn an_intent_has_the_bound_of_a_chains_last_strategy_in_the_tokens_of_its_own_counter() {
        let fit = |tokens| FitContextWindow::new(tokens).unwrap();
        let trim = || TrimRounds::new(1).unwrap();
        let truncate = || TruncateToolOutputs::new(4).unwrap().rules(Rules::Agentix);
        let limited = || Made { limit: Some(7), ..made(|_| Reduction::Unchanged) };
        let cases: [(Arc<dyn ContextStrategy>, Option<u64>); 8] = [
            (Arc::new(fit(90)), Some(90)),
            (Arc::new(fit(90).rules(Rules::Agentix)), None),
            (Arc::new(Chain::new(trim()).then(fit(90))), Some(90)),
            (Arc::new(Chain::new(fit(30)).then(fit(90))), Some(90)),
            (Arc::new(Chain::new(fit(90)).then(truncate())), None),
            (Arc::new(Chain::new(fit(90)).then(limited())), None),
            (Arc::new(Chain::new(trim()).then(limited())), Some(7)),
            (Arc::new(Chain::new(trim()).then(Chain::new(fit(9)).then(fit(90)))), Some(90)),
        ];
        for (strategy, limit) in cases {
            assert_eq!(strategy.limit(), limit, "{}", strategy.name());
        }
    }

    #[test]
    fn the_order_of_reserve_and_rules_does_not_matter_and_names_have_all_settings() {
        let new = || FitContextWindow::new(100).unwrap();
        let counted =
            MessageMeasure::with(HeuristicTokens::default()).per_message_overhead(3).tokens_per_media(7);
        let [first, last] = [
            new().rules(Rules::Agentix).reserve_tokens(100).unwrap(),
            new().reserve_tokens(100).unwrap().rules(Rules::Agentix),
        ];
        assert_eq!(first.name(), last.name());
        for strategy in [first, last] {
            assert!(select(&strategy, &history().as_slice(), &mut ConversationFacts::new()).is_ok());
            let default = strategy.rules(Rules::Taskreel);
            let refused = select(&default, &history().as_slice(), &mut ConversationFacts::new()).unwrap_err();
            assert!(matches!(refused, ContextError::Setting { why: SettingError::ReserveOfAll, .. }));
        }
        assert_eq!(new().counting(counted).name(), "fit-context-window(100, 3 a message, 7 a media part)");
        let marked = TruncateToolOutputs::new(9).unwrap().marker("\n…");
        assert_eq!(marked.name(), "truncate-tool-outputs(9, marker \"\\n…\")");
    }

    #[test]
    fn a_later_question_opens_its_own_round_which_keeps_its_calls_with_their_answers() {
        use LlmRole::{Assistant, System, User};
        let roles = [System, User, User, Assistant, System, Assistant, User, Assistant, System, Assistant];
        let messages: Vec<LlmMessage> = roles.map(|role| said(role, "text")).into();
        let (messages, mut facts) = (messages.as_slice(), ConversationFacts::new());
        let division = divide(&History::new(&messages, &mut facts), Rules::Taskreel);
        assert_eq!((division.head, division.task), (vec![0], None));
        let rounds: Vec<(u32, u32)> =
            division.rounds.iter().map(|Round { first, last }| (*first, *last)).collect();
        assert_eq!(rounds, [(1, 1), (2, 4), (5, 5), (6, 8), (9, 9)]);
        let division = divide(&History::new(&messages, &mut facts), Rules::Agentix);
        let rounds: Vec<(u32, u32)> =
            division.rounds.iter().map(|Round { first, last }| (*first, *last)).collect();
        assert_eq!((division.task, rounds), (Some(1), vec![(2, 2), (3, 4), (5, 6), (7, 8), (9, 9)]));
    }

    /// Messages that count how often they are read.
    struct Counted {
        roles: Vec<LlmRole>,
        source: JsonText,
        reads: Cell<usize>,
        sources: Cell<usize>,
        ids: Vec<String>,
    }

    impl Counted {
        fn of(roles: Vec<LlmRole>) -> Self {
            let mut metadata = proto_events::json::JsonObject::new();
            let place = ResultPlace { task_id: "t".to_owned(), call_id: "c".to_owned(), is_text: true };
            place.note_in(&mut metadata);
            let source = metadata.get("taskreel.result").unwrap().clone();
            let ids = (0..roles.len()).map(|at| at.to_string()).collect();
            Self { roles, source, reads: Cell::new(0), sources: Cell::new(0), ids }
        }
    }

    impl Transcript for Counted {
        fn system(&self) -> Option<&str> {
            None
        }

        fn count(&self) -> u32 {
            u32::try_from(self.roles.len()).unwrap()
        }

        fn message(&self, number: u32) -> Option<MessageView<'_>> {
            self.reads.set(self.reads.get() + 1);
            let content = Content::Text("a text of some length, so that it is longer than the limit");
            Some(MessageView { role: *self.roles.get(number as usize)?, content, calls: None, answers: None })
        }

        fn source(&self, _: u32) -> Option<&JsonText> {
            self.sources.set(self.sources.get() + 1);
            Some(&self.source)
        }

        fn id(&self, number: u32) -> Option<&str> {
            self.ids.get(number as usize).map(String::as_str)
        }
    }

    #[test]
    fn the_work_for_a_history_without_a_question_grows_with_its_length_and_no_faster() {
        let messages = Counted::of(vec![LlmRole::Assistant; 4_000]);
        let strategy = FitContextWindow::new(60_000).unwrap();
        assert!(select(&strategy, &messages, &mut ConversationFacts::new()).unwrap().is_some());
        assert!(messages.reads.get() < 4_000 * 20, "{} reads", messages.reads.get());
    }

    #[test]
    fn the_place_of_a_result_is_read_once_for_all_inferences() {
        let messages = Counted::of(vec![LlmRole::User; 500]);
        let strategy = MinimizeOutputs::new(CharacterLimit::new(10).unwrap());
        let mut facts = ConversationFacts::new();
        for _ in 0..3 {
            assert_eq!(
                select(&strategy, &messages, &mut facts),
                Ok(None),
                "the form is longer than the text"
            );
        }
        assert_eq!(messages.sources.get(), 500);
    }

    #[test]
    fn facts_of_messages_without_ids_are_read_again() {
        struct Nameless(Vec<LlmMessage>);
        impl Transcript for Nameless {
            fn system(&self) -> Option<&str> {
                None
            }
            fn count(&self) -> u32 {
                self.0.as_slice().count()
            }
            fn message(&self, number: u32) -> Option<MessageView<'_>> {
                self.0.get(number as usize).map(MessageView::from_message)
            }
        }
        let (strategy, mut facts) = (FitContextWindow::new(1_000).unwrap(), ConversationFacts::new());
        let short = Nameless(history());
        assert_eq!(select(&strategy, &short, &mut facts), Ok(None));
        facts.settle(4);
        let mut long = history();
        long[3].content = "word ".repeat(2_000);
        let refused = select(&strategy, &Nameless(long), &mut facts).unwrap_err();
        assert!(matches!(refused, ContextError::DoesNotFit { .. }), "{refused}");
    }

    #[test]
    fn a_note_with_a_result_is_cut_as_an_answer_behind_a_question_and_other_notes_are_not() {
        let note = format!(r#"{{"type": "tool_result", "tool": "t", "result": "{}"}}"#, "x".repeat(400));
        let messages = vec![said(LlmRole::User, "go on"), said(LlmRole::System, &note)];
        let truncate = TruncateToolOutputs::new(40).unwrap();
        let selection =
            select(&truncate, &messages.as_slice(), &mut ConversationFacts::new()).unwrap().unwrap();
        assert_eq!(selection.cut_of(1).map(|cut| cut.characters), Some(26));
        let other = note.replace("tool_result", "remark");
        let messages = vec![said(LlmRole::User, "go on"), said(LlmRole::System, &other)];
        assert_eq!(select(&truncate, &messages.as_slice(), &mut ConversationFacts::new()), Ok(None));
    }
}
