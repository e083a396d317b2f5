//! An exact counter for the vocabularies of `OpenAI`.

use tiktoken_rs::CoreBPE;

use crate::context::counter::TokenCounter;

/// A counter that divides texts as the models of `OpenAI` do. The vocabularies are part of the program; nothing is
/// downloaded.
#[derive(Clone, Copy)]
pub struct ExactTokens {
    name: &'static str,
    vocabulary: &'static CoreBPE,
}

/// A name that no known vocabulary has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no vocabulary `{0}` is known; the known ones are o200k_base and cl100k_base")]
pub struct UnknownVocabulary(String);

impl ExactTokens {
    /// Returns the counter of a vocabulary: `o200k_base` for gpt-4o and later models, `cl100k_base` for gpt-4 and
    /// gpt-3.5. It is loaded on first use, which takes some tenths of a second.
    ///
    /// # Errors
    /// [`UnknownVocabulary`] for any other name.
    pub fn new(vocabulary: &str) -> Result<Self, UnknownVocabulary> {
        match vocabulary {
            "o200k_base" => Ok(Self { name: "o200k_base", vocabulary: tiktoken_rs::o200k_base_singleton() }),
            "cl100k_base" => {
                Ok(Self { name: "cl100k_base", vocabulary: tiktoken_rs::cl100k_base_singleton() })
            }
            other => Err(UnknownVocabulary(other.to_owned())),
        }
    }
}

impl std::fmt::Debug for ExactTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ExactTokens").field(&self.name).finish()
    }
}

impl TokenCounter for ExactTokens {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn tokens(&self, text: &str) -> u64 {
        text_parts(text).map(|part| self.vocabulary.encode_ordinary(part).len() as u64).sum()
    }
}

/// The longest run of white space that is divided as a whole. The pattern that divides a text tries each length of a run, and
/// gives up on very long ones with a panic.
const SPACES_MAX: usize = 10_000;

/// Returns the parts of a text, cut within runs of white space that are longer: there the count may be some tokens too high,
/// everywhere else it is exact.
fn text_parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let mut run = 0;
        let cut = all.char_indices().find(|(_, letter)| {
            run = if letter.is_whitespace() { run + 1 } else { 0 };
            run > SPACES_MAX
        });
        let (part, behind) = cut
            .and_then(|(at, _)| all.split_at_checked(at))
            .map_or((all, None), |(part, behind)| (part, Some(behind)));
        rest = behind;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_tokens_of_the_vocabularies() {
        let cl100k = ExactTokens::new("cl100k_base").unwrap();
        let counts =
            ["", "hello world", "tiktoken is great!", "お誕生日おめでとう"].map(|text| cl100k.tokens(text));
        assert_eq!(counts, [0, 2, 6, 9]);
        assert_eq!(ExactTokens::new("o200k_base").unwrap().tokens("お誕生日おめでとう"), 8);
        assert_eq!(cl100k.tokens("<|endoftext|>"), 7, "a name of a special token is an ordinary text");
        assert!(ExactTokens::new("p50k").unwrap_err().to_string().contains("`p50k`"));
    }

    #[test]
    fn a_run_of_white_space_or_letters_of_any_length_is_counted_and_others_exactly() {
        for name in ["cl100k_base", "o200k_base"] {
            let counter = ExactTokens::new(name).unwrap();
            let spaces = counter.tokens(&(" ".repeat(1_000_001) + "x"));
            assert!((1_000..1_000_001).contains(&spaces), "{name}: {spaces}");
            for long in ["\n", " \n", "A", "1", "\u{3000}", "日", "aB", "!"] {
                assert!(counter.tokens(&long.repeat(100_000)) > 0, "{name}: {long:?}");
            }
            let short = "a".to_owned() + &" ".repeat(SPACES_MAX) + "x";
            assert_eq!(counter.tokens(&short), counter.vocabulary.encode_ordinary(&short).len() as u64);
        }
        let text = " ".repeat(SPACES_MAX * 2 + 1) + "x\n y";
        let divided: Vec<&str> = text_parts(&text).collect();
        assert_eq!((divided.len(), divided.concat()), (3, text.clone()));
        assert_eq!(text_parts("").collect::<Vec<_>>(), [""]);
    }
}
