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
        self.vocabulary.encode_ordinary(text).len() as u64
    }
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
}
