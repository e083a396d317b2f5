//! agentix's context strategies: the division of a history, what each strategy keeps, and the count of tokens.

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use taskreel_log::context::{
    Content, ContentPart, ContextStrategy, ConversationFacts, FitContextWindow, HeuristicTokens, History,
    MessageMeasure, MessageView, Reduction, Rules, SettingError, TokenCounter, Transcript, TrimRounds,
    TruncateToolOutputs, View, divide,
};

use super::{Case, Failure};

/// The length in characters, or the number of words, as tokens.
#[derive(Clone, Copy)]
enum Simple {
    Characters,
    Words,
}

impl TokenCounter for Simple {
    fn name(&self) -> String {
        match self {
            Self::Characters => "len".to_owned(),
            Self::Words => "words".to_owned(),
        }
    }

    fn tokens(&self, text: &str) -> u64 {
        match self {
            Self::Characters => text.chars().count() as u64,
            Self::Words => text.split_whitespace().count() as u64,
        }
    }
}

/// The messages of a case.
struct Messages(Vec<Message>);

struct Message {
    role: LlmRole,
    content: Result<String, Vec<ContentPart>>,
    calls: Option<JsonText>,
    answers: Option<JsonText>,
}

impl Transcript for Messages {
    fn system(&self) -> Option<&str> {
        None
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap()
    }

    fn message(&self, number: u32) -> Option<MessageView<'_>> {
        let message = self.0.get(usize::try_from(number).unwrap())?;
        let content = match &message.content {
            Ok(text) => Content::Text(text),
            Err(parts) => Content::Parts(parts),
        };
        let (calls, answers) = (message.calls.as_ref(), message.answers.as_ref());
        Some(MessageView { role: message.role, content, calls, answers })
    }
}

impl Messages {
    fn of(case: &Case) -> Result<Self, Failure> {
        let messages = case.input()["messages"].as_array().into_iter().flatten().map(message);
        messages.collect::<Option<_>>().map(Self).ok_or_else(|| Failure::Unanswerable("a message".to_owned()))
    }
}

fn message(json: &Value) -> Option<Message> {
    let content = match &json["content"] {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => Err(parts.iter().map(part).collect()),
        _ => return None,
    };
    let call = |call: &Value| {
        let args = JsonText::from(call["args"].clone()).as_str().to_owned();
        json!({"id": call["id"], "type": "function",
            "function": {"name": call["name"], "arguments": args}})
    };
    let calls = json["tool_calls"].as_array().map(|calls| calls.iter().map(call).collect::<Vec<_>>());
    Some(Message {
        role: LlmRole::from_json(&JsonText::from(json["role"].clone())).ok()?,
        content,
        calls: calls.map(|calls| JsonText::from(Value::Array(calls))),
        answers: json["call_id"].as_str().map(JsonText::string),
    })
}

fn part(json: &Value) -> ContentPart {
    json["text"].as_str().map_or(ContentPart::Media, |text| ContentPart::Text(text.to_owned()))
}

fn counting(case: &Case) -> Result<MessageMeasure, Failure> {
    let input = case.input();
    let counting = match &input["counter"] {
        Value::Null => MessageMeasure::default(),
        Value::String(name) if name == "len" => MessageMeasure::with(Simple::Characters),
        Value::String(name) if name == "words" => MessageMeasure::with(Simple::Words),
        ratio => {
            let ratio =
                ratio.as_f64().ok_or_else(|| Failure::Unanswerable(format!("the counter {ratio}")))?;
            MessageMeasure::with(HeuristicTokens::new(ratio).map_err(refused)?)
        }
    };
    let overhead = input["per_message_overhead"].as_i64();
    let counting = overhead.map_or(counting.clone(), |tokens| counting.per_message_overhead(tokens));
    let media = input["tokens_per_media"].as_u64();
    Ok(media.map_or(counting.clone(), |tokens| counting.tokens_per_media(tokens)))
}

#[allow(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
fn refused(error: SettingError) -> Failure {
    Failure::Refused(error.to_string())
}

fn number(case: &Case, key: &str) -> Result<i64, Failure> {
    case.input()[key].as_i64().ok_or_else(|| Failure::Unanswerable(format!("input.{key} is no number")))
}

fn all_tokens(counting: &MessageMeasure, messages: &Messages) -> Vec<i64> {
    (0..messages.count()).filter_map(|at| Some(counting.message(&messages.message(at)?))).collect()
}

fn numbers(numbers: impl Iterator<Item = u32>) -> Value {
    Value::Array(numbers.map(Value::from).collect())
}

/// Answers a case of the division.
pub(crate) fn split(case: &Case) -> Result<Value, Failure> {
    let (messages, mut facts) = (Messages::of(case)?, ConversationFacts::new());
    let division = divide(&History::new(&messages, &mut facts), Rules::Agentix);
    let rounds = division.rounds.iter().map(|round| numbers(round.first..=round.last));
    Ok(json!({
        "head": numbers(division.head.into_iter()),
        "task": numbers(division.task.into_iter()),
        "rounds": Value::Array(rounds.collect()),
    }))
}

/// Answers a case of counts.
pub(crate) fn token_count(case: &Case) -> Result<Value, Failure> {
    let counting = counting(case)?;
    if case.input()["messages"].is_null() {
        return Ok(counting.text(case.text("text")?).into());
    }
    let tokens = all_tokens(&counting, &Messages::of(case)?);
    let total = tokens.iter().sum::<i64>();
    Ok(json!({"total": total, "per_message": tokens}))
}

/// Returns what a strategy keeps of messages, and whether that is less than all.
fn reduced(strategy: &dyn ContextStrategy, messages: &Messages) -> Result<(bool, View), Failure> {
    let mut facts = ConversationFacts::new();
    let mut history = History::new(messages, &mut facts);
    match strategy.reduce(&mut history).map_err(|error| Failure::Refused(error.to_string()))? {
        Reduction::Unchanged => Ok((false, View::all_whole(messages.count()))),
        Reduction::View(view) => Ok((true, view)),
    }
}

/// Answers a case of the newest rounds.
pub(crate) fn trim_rounds(case: &Case) -> Result<Value, Failure> {
    let strategy = TrimRounds::new(number(case, "max_rounds")?).map_err(refused)?.rules(Rules::Agentix);
    let (changed, view) = reduced(&strategy, &Messages::of(case)?)?;
    Ok(json!({"changed": changed, "kept_indexes": numbers(view.numbers())}))
}

/// Answers a case of what fits a window.
pub(crate) fn fit_window(case: &Case) -> Result<Value, Failure> {
    let strategy = FitContextWindow::new(number(case, "max_tokens")?).map_err(refused)?;
    let strategy = strategy.rules(Rules::Agentix).counting(counting(case)?);
    let reserve = case.input()["reserve_tokens"].as_i64().unwrap_or_default();
    let strategy = strategy.reserve_tokens(reserve).map_err(refused)?;
    let messages = Messages::of(case)?;
    let (changed, view) = reduced(&strategy, &messages)?;
    let tokens = all_tokens(&counting(case)?, &messages);
    let after = view.numbers().filter_map(|at| tokens.get(usize::try_from(at).ok()?)).sum::<i64>();
    Ok(json!({
        "changed": changed,
        "kept_indexes": numbers(view.numbers()),
        "tokens_before": tokens.iter().sum::<i64>(),
        "tokens_after": after,
    }))
}

/// Answers a case of cut tool outputs.
pub(crate) fn truncate_tool_outputs(case: &Case) -> Result<Value, Failure> {
    let strategy =
        TruncateToolOutputs::new(number(case, "max_chars")?).map_err(refused)?.rules(Rules::Agentix);
    let strategy = match case.input()["marker"].as_str() {
        Some(marker) => strategy.marker(marker),
        None => strategy,
    };
    let mut messages = Messages::of(case)?;
    let (changed, view) = reduced(&strategy, &messages)?;
    let mut facts = ConversationFacts::new();
    let mut history = History::new(&messages, &mut facts);
    history.set_view(view.clone());
    let texts: Vec<Option<String>> = view.numbers().map(|at| history.text(at)).collect();
    let shown = texts.iter().map(|text| text.clone().unwrap_or_else(|| "(parts)".to_owned()).into());
    let contents = Value::Array(shown.collect());
    for (message, text) in messages.0.iter_mut().zip(texts) {
        if let Some(text) = text {
            message.content = Ok(text);
        }
    }
    let (second, _) = reduced(&strategy, &messages)?;
    let given = case.input()["messages"].as_array().into_iter().flatten();
    let field = |message: &Value| {
        let trusted = message["trusted"] == Value::Bool(true);
        json!({"role": message["role"], "name": message["name"], "trusted": trusted})
    };
    let kept = given.enumerate().filter(|(at, _)| view.keeps(u32::try_from(*at).unwrap()));
    let fields: Vec<Value> = kept.map(|(_, message)| field(message)).collect();
    Ok(json!({
        "changed": changed,
        "contents": contents,
        "second_pass_changed": second,
        "kept_fields": Value::Array(fields),
    }))
}
