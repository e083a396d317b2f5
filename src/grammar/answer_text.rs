//! The text of an answer while a model's reply arrives: the content of a `final` action without its JSON, or the reply
//! itself where the model simply talks.

use crate::grammar::reply_text::{closing_of, may_open_reasoning};

/// A reader of a reply that arrives in pieces.
#[derive(Debug)]
pub(crate) struct AnswerText {
    /// Whether a reply that is not an action is an answer.
    may_talk: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Only space has arrived, or reasoning.
    Start,
    /// The text so far may become the tag that begins reasoning.
    Tag(String),
    /// The model reasons: the tag that ends it, and the newest characters, no more than that tag has.
    Reasoning(&'static str, String),
    /// The reply is the answer.
    Plain,
    /// An action is looked for: its first brace has not arrived.
    BeforeAction,
    /// The reply is an action.
    Action(Box<ActionText>),
    /// The reply is not an answer.
    Silent,
}

/// A reader of the top level of an action.
#[derive(Debug, Default)]
struct ActionText {
    depth: usize,
    string: Option<InString>,
    /// The key whose value comes next.
    key: String,
    is_value: bool,
    /// Whether the action is known to be an answer.
    is_final: bool,
    /// The content that arrived before the type.
    held: String,
}

/// A string of the action that is being read.
#[derive(Debug, Default)]
struct InString {
    role: Role,
    text: String,
    escape: Escape,
    /// The first half of a character that is written as two escapes.
    high: Option<u32>,
}

/// The role of a string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Role {
    #[default]
    Other,
    Key,
    Type,
    Content,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// The hexadecimal digits so far: their number and value.
    Unicode(u32, u32),
}

impl AnswerText {
    /// Creates a reader. `may_talk`: a reply that is not an action is an answer.
    pub(crate) fn new(may_talk: bool) -> Self {
        Self { may_talk, stage: Stage::Start }
    }

    /// Reads the next piece of the reply, and returns the piece of the answer in it.
    pub(crate) fn accept_piece(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for char in piece.chars() {
            self.take_char(char, &mut out);
        }
        out
    }

    fn take_char(&mut self, char: char, out: &mut String) {
        match &mut self.stage {
            Stage::Start if matches!(char, '<' | '[') => self.stage = Stage::Tag(char.to_string()),
            Stage::Start if char.is_whitespace() || char == '\u{feff}' => {}
            Stage::Start => self.accept_first_char(char, out),
            Stage::Tag(tag) => {
                tag.push(char);
                if let Some(closing) = closing_of(tag) {
                    self.stage = Stage::Reasoning(closing, String::new());
                } else if !may_open_reasoning(tag) {
                    let mut read = std::mem::take(tag);
                    if let Some(first) = read.chars().next() {
                        self.accept_first_char(first, out);
                        read.drain(..first.len_utf8());
                    }
                    read.chars().for_each(|char| self.take_said(char, out));
                }
            }
            Stage::Reasoning(closing, newest) => {
                newest.push(char);
                if newest.to_ascii_lowercase().ends_with(&closing.to_ascii_lowercase()) {
                    self.stage = Stage::Start;
                } else if newest.chars().count() >= closing.len() {
                    newest.remove(0);
                }
            }
            _ => self.take_said(char, out),
        }
    }

    /// Reads the first character of what is said.
    fn accept_first_char(&mut self, first: char, out: &mut String) {
        let is_action = !self.may_talk || matches!(first, '{' | '`');
        self.stage = if is_action { Stage::BeforeAction } else { Stage::Plain };
        self.take_said(first, out);
    }

    fn take_said(&mut self, char: char, out: &mut String) {
        match &mut self.stage {
            Stage::Plain => out.push(char),
            Stage::BeforeAction if char == '{' => {
                self.stage = Stage::Action(Box::new(ActionText { depth: 1, ..ActionText::default() }));
            }
            Stage::Start | Stage::Tag(_) | Stage::Reasoning(..) | Stage::BeforeAction | Stage::Silent => {}
            Stage::Action(action) => {
                if !action.accept_char(char, out) {
                    self.stage = Stage::Silent;
                }
            }
        }
    }
}

impl ActionText {
    /// Reads the next character. Returns whether an answer may follow.
    fn accept_char(&mut self, char: char, out: &mut String) -> bool {
        let Some(string) = &mut self.string else { return self.take_outside(char) };
        let role = string.role;
        let Some(read) = string.accept_char(char) else {
            let ended = self.string.take().unwrap_or_default();
            return self.end_string(ended, out);
        };
        match (role, read) {
            (Role::Content, Some(char)) if self.is_final => out.push(char),
            (Role::Content, Some(char)) => self.held.push(char),
            (Role::Key | Role::Type, Some(char)) => string.text.push(char),
            _ => {}
        }
        true
    }

    fn take_outside(&mut self, char: char) -> bool {
        match char {
            '"' => {
                let role = match (self.depth, self.is_value, self.key.as_str()) {
                    (1, false, _) => Role::Key,
                    (1, true, "type") => Role::Type,
                    (1, true, "content") => Role::Content,
                    _ => Role::Other,
                };
                self.string = Some(InString { role, ..InString::default() });
            }
            ':' if self.depth == 1 => self.is_value = true,
            ',' if self.depth == 1 => self.is_value = false,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth > 0
    }

    fn end_string(&mut self, ended: InString, out: &mut String) -> bool {
        match ended.role {
            Role::Key => self.key = ended.text,
            Role::Type if ended.text == "final" => {
                self.is_final = true;
                out.push_str(&std::mem::take(&mut self.held));
            }
            Role::Type => return false,
            Role::Content | Role::Other => {}
        }
        true
    }
}

impl InString {
    /// Reads the next character: `None` at the end of the string, else the character that is complete with it, if one is.
    #[allow(clippy::option_option, reason = "the end of a string is not the absence of a character")]
    fn accept_char(&mut self, char: char) -> Option<Option<char>> {
        match self.escape {
            Escape::None if char == '"' => return None,
            Escape::None if char == '\\' => self.escape = Escape::Backslash,
            Escape::None => return Some(Some(char)),
            Escape::Backslash => {
                self.escape = Escape::None;
                let plain = match char {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        self.escape = Escape::Unicode(0, 0);
                        return Some(None);
                    }
                    other => other,
                };
                return Some(Some(plain));
            }
            Escape::Unicode(digits, value) => {
                let value = value * 16 + char.to_digit(16).unwrap_or_default();
                if digits < 3 {
                    self.escape = Escape::Unicode(digits + 1, value);
                } else {
                    self.escape = Escape::None;
                    return Some(self.unit(value));
                }
            }
        }
        Some(None)
    }

    /// Returns the character of a UTF-16 unit, unless it is the first half of one.
    fn unit(&mut self, value: u32) -> Option<char> {
        match (self.high.take(), value) {
            (_, 0xD800..=0xDBFF) => {
                self.high = Some(value);
                None
            }
            (Some(high), 0xDC00..=0xDFFF) => {
                char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (value - 0xDC00))
            }
            (_, value) => Some(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the reply in pieces of each size from one character up: the answer is the same.
    fn answer(may_talk: bool, reply: &str) -> String {
        let chars: Vec<char> = reply.chars().collect();
        let mut answers: Vec<String> = (1..=chars.len().max(1))
            .map(|size| {
                let mut reader = AnswerText::new(may_talk);
                chars
                    .chunks(size)
                    .map(|piece| reader.accept_piece(&piece.iter().collect::<String>()))
                    .collect()
            })
            .collect();
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    #[test]
    fn the_content_of_a_final_action_is_told_unescaped_however_it_is_cut() {
        for (reply, said) in [
            (
                r#"{"type":"final","content":"Hi \"you\"\n\u00e9 \ud83d\ude00 \\ \/"}"#,
                "Hi \"you\"\né 😀 \\ /",
            ),
            (r#" {"thought":"a \"content\": b","content":"before","type":"final"}"#, "before"),
            ("```json\n{\"type\": \"final\", \"content\": \"fenced\"}\n```", "fenced"),
            (r#"Sure: {"type":"final","content":"prose"} there"#, "prose"),
            (r#"{"meta":{"type":"tool_call","content":"inner"},"type":"final","content":"outer"}"#, "outer"),
            (r#"{"type":"tool_call","tool":"t","args":{"content":"no"}}"#, ""),
            (r#"{"content":"no answer","type":"tool_call"}"#, ""),
            ("no action at all", ""),
        ] {
            assert_eq!(answer(false, reply), said, "{reply}");
        }
    }

    #[test]
    fn a_model_that_may_talk_is_heard_as_it_talks() {
        assert_eq!(answer(true, "  Take a coat. {not JSON}"), "Take a coat. {not JSON}");
        assert_eq!(answer(true, r#"{"type":"final","content":"JSON"}"#), "JSON");
    }

    #[test]
    fn reasoning_before_an_answer_is_not_told() {
        for (reply, said) in [
            ("<think>\nShort, {\"a\"}.\n</think>\nTake a coat.", "Take a coat."),
            ("<Thinking>a</thinkin></THINKING> <think>ä</think>b < c", "b < c"),
            (" <b>bold</b>", "<b>bold</b>"),
            ("<think", ""),
            ("<thinker> is a word", "<thinker> is a word"),
            ("<think>a</think>{\"type\":\"final\",\"content\":\"x\"}", "x"),
            ("[x] done", "[x] done"),
        ] {
            assert_eq!(answer(true, reply), said, "{reply}");
        }
        assert_eq!(answer(false, "<think>{\"a\"}</think>{\"type\":\"final\",\"content\":\"x\"}"), "x");
    }
}
