//! Storage structs of the reference to a prompt.

use serde::{Deserialize, Serialize};

use crate::call::prompt::{Cut, CutRule, KeptRange, PromptRef, Selection};
use crate::codec::code::Coded;
use crate::codec::error::FieldError;
use crate::id::{Digest, Version};

#[derive(Serialize, Deserialize)]
pub(super) struct PromptV1 {
    session: Option<String>,
    read_through: u64,
    revision: u32,
    messages: u32,
    tokens: Option<u64>,
    selection: Option<SelectionV1>,
    digest: [u8; 32],
    renderer: u16,
}

#[derive(Serialize, Deserialize)]
struct SelectionV1 {
    strategy: String,
    /// The first message of each kept range and the number of its messages.
    kept: Vec<(u32, u32)>,
    /// The message, the code of the rule and the kept characters of each cut.
    cuts: Vec<(u32, u8, u64)>,
}

impl PromptV1 {
    pub(super) fn of(prompt: PromptRef) -> Self {
        let PromptRef { session, read_through, revision, messages, tokens, selection, digest, renderer } =
            prompt;
        let (read_through, digest) = (read_through.0, digest.0);
        let selection = selection.map(SelectionV1::of);
        Self { session, read_through, revision, messages, tokens, selection, digest, renderer }
    }

    pub(super) fn read(self) -> Result<PromptRef, FieldError> {
        let Self { session, read_through, revision, messages, tokens, selection, digest, renderer } = self;
        let (read_through, digest) = (Version(read_through), Digest(digest));
        let selection = selection.map(SelectionV1::read).transpose()?;
        Ok(PromptRef { session, read_through, revision, messages, tokens, selection, digest, renderer })
    }
}

impl SelectionV1 {
    fn of(selection: Selection) -> Self {
        let Selection { strategy, kept, cuts } = selection;
        let kept = kept.into_iter().map(|range| (range.first, range.count)).collect();
        let cuts = cuts.into_iter().map(|cut| (cut.message, cut.rule.code(), cut.characters)).collect();
        Self { strategy, kept, cuts }
    }

    fn read(self) -> Result<Selection, FieldError> {
        let Self { strategy, kept, cuts } = self;
        let kept = kept.into_iter().map(|(first, count)| KeptRange { first, count }).collect();
        let cut =
            |(message, rule, characters)| Ok(Cut { message, rule: CutRule::of_code(rule)?, characters });
        let cuts = cuts.into_iter().map(cut).collect::<Result<_, FieldError>>()?;
        Ok(Selection { strategy, kept, cuts })
    }
}
