//! Storage structs of the reference to a prompt. The selection of its messages has three schema versions, which equal those in
//! the intent.

use serde::{Deserialize, Serialize};

use crate::call::prompt::PromptRef;
use crate::call::selection::{Cut, CutRule, KeptRange, MessageRule, Selection, Sizes};
use crate::codec::code::CodedEnum;
use crate::codec::error::FieldError;
use crate::id::{Digest, Version};

/// The reference, with the selection of its intent's schema version.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredPrompt<S> {
    session: Option<String>,
    read_through: u64,
    revision: u32,
    messages: u32,
    tokens: Option<u64>,
    selection: Option<S>,
    digest: [u8; 32],
    renderer: u16,
}

/// The first version: without markers and sizes.
#[derive(Serialize, Deserialize)]
pub(super) struct SelectionV1 {
    strategy: String,
    /// The first message of each kept range and the number of its messages.
    kept: Vec<(u32, u32)>,
    /// The message, the code of the rule and the kept characters of each cut.
    cuts: Vec<(u32, u8, u64)>,
}

/// The second version: without rules.
#[derive(Serialize, Deserialize)]
pub(super) struct SelectionV2 {
    strategy: String,
    /// The first message of each kept range and the number of its messages.
    kept: Vec<(u32, u32)>,
    /// The message, the code of the rule, the kept characters and the number of the marker of each cut.
    cuts: Vec<(u32, u8, u64, Option<u32>)>,
    markers: Vec<String>,
    sizes: Option<SizesV2>,
}

/// The third version.
#[derive(Serialize, Deserialize)]
pub(super) struct SelectionV3 {
    strategy: String,
    /// The first message of each kept range and the number of its messages.
    kept: Vec<(u32, u32)>,
    /// The message, the code of the rule, the kept characters and the number of the marker of each cut.
    cuts: Vec<(u32, u8, u64, Option<u32>)>,
    markers: Vec<String>,
    sizes: Option<SizesV2>,
    /// The code of the rule, the kept characters, the number of the marker and the exceptions of each rule.
    rules: Vec<(u8, u64, Option<u32>, Vec<u32>)>,
}

#[derive(Serialize, Deserialize)]
struct SizesV2 {
    counter: String,
    messages_before: u32,
    tokens_before: u64,
    tokens_after: u64,
    limit: Option<u64>,
}

impl SelectionV1 {
    pub(super) fn upcast(self) -> SelectionV2 {
        let Self { strategy, kept, cuts } = self;
        let cut = |(message, rule, characters)| (message, rule, characters, None);
        let cuts = cuts.into_iter().map(cut).collect();
        SelectionV2 { strategy, kept, cuts, markers: Vec::new(), sizes: None }
    }
}

impl SelectionV2 {
    pub(super) fn upcast(self) -> SelectionV3 {
        let Self { strategy, kept, cuts, markers, sizes } = self;
        SelectionV3 { strategy, kept, cuts, markers, sizes, rules: Vec::new() }
    }
}

impl<S> StoredPrompt<S> {
    /// Returns the reference with the selection of the next schema version.
    pub(super) fn upcast<N>(self, selection: impl FnOnce(S) -> N) -> StoredPrompt<N> {
        let Self { session, read_through, revision, messages, tokens, selection: kept, digest, renderer } =
            self;
        let selection = kept.map(selection);
        StoredPrompt { session, read_through, revision, messages, tokens, selection, digest, renderer }
    }

    pub(super) fn new(prompt: PromptRef, selection: impl FnOnce(Selection) -> S) -> Self {
        let PromptRef {
            session,
            read_through,
            revision,
            messages,
            tokens,
            selection: kept,
            digest,
            renderer,
        } = prompt;
        let (read_through, digest) = (read_through.0, digest.0);
        let selection = kept.map(selection);
        Self { session, read_through, revision, messages, tokens, selection, digest, renderer }
    }
}

impl StoredPrompt<SelectionV3> {
    pub(super) fn read(self) -> Result<PromptRef, FieldError> {
        let Self { session, read_through, revision, messages, tokens, selection, digest, renderer } = self;
        let (read_through, digest) = (Version(read_through), Digest(digest));
        let selection = selection.map(SelectionV3::read).transpose()?;
        Ok(PromptRef { session, read_through, revision, messages, tokens, selection, digest, renderer })
    }
}

impl SelectionV1 {
    /// Whether this version has a field for all that a selection says.
    pub(super) fn holds(selection: &Selection) -> bool {
        let Selection { strategy: _, kept: _, cuts, markers, sizes, rules } = selection;
        markers.is_empty()
            && sizes.is_none()
            && rules.is_empty()
            && cuts.iter().all(|cut| cut.marker.is_none())
    }

    pub(super) fn from_selection(selection: Selection) -> Self {
        let Selection { strategy, kept, cuts, markers: _, sizes: _, rules: _ } = selection;
        let kept = kept.into_iter().map(|range| (range.first, range.count)).collect();
        let cuts = cuts.into_iter().map(|cut| (cut.message, cut.rule.code(), cut.characters)).collect();
        Self { strategy, kept, cuts }
    }
}

impl SelectionV2 {
    /// Whether this version has a field for all that a selection says.
    pub(super) fn holds(selection: &Selection) -> bool {
        selection.rules.is_empty()
    }

    pub(super) fn from_selection(selection: Selection) -> Self {
        let SelectionV3 { strategy, kept, cuts, markers, sizes, rules: _ } =
            SelectionV3::from_selection(selection);
        Self { strategy, kept, cuts, markers, sizes }
    }
}

impl SelectionV3 {
    pub(super) fn from_selection(selection: Selection) -> Self {
        let Selection { strategy, kept, cuts, markers, sizes, rules } = selection;
        let kept = kept.into_iter().map(|range| (range.first, range.count)).collect();
        let cut = |cut: Cut| (cut.message, cut.rule.code(), cut.characters, cut.marker);
        let cuts = cuts.into_iter().map(cut).collect();
        let rule = |rule: MessageRule| (rule.rule.code(), rule.characters, rule.marker, rule.except);
        let rules = rules.into_iter().map(rule).collect();
        Self { strategy, kept, cuts, markers, sizes: sizes.map(SizesV2::from_sizes), rules }
    }

    fn read(self) -> Result<Selection, FieldError> {
        let Self { strategy, kept, cuts, markers, sizes, rules } = self;
        let kept = kept.into_iter().map(|(first, count)| KeptRange { first, count }).collect();
        let cut = |(message, rule, characters, marker)| {
            Ok(Cut { message, rule: CutRule::of_code(rule)?, characters, marker })
        };
        let cuts = cuts.into_iter().map(cut).collect::<Result<_, FieldError>>()?;
        let rule = |(rule, characters, marker, except)| {
            Ok(MessageRule { rule: CutRule::of_code(rule)?, characters, marker, except })
        };
        let rules = rules.into_iter().map(rule).collect::<Result<_, FieldError>>()?;
        Ok(Selection { strategy, kept, cuts, markers, sizes: sizes.map(SizesV2::read), rules })
    }
}

impl SizesV2 {
    fn from_sizes(sizes: Sizes) -> Self {
        let Sizes { counter, messages_before, tokens_before, tokens_after, limit } = sizes;
        Self { counter, messages_before, tokens_before, tokens_after, limit }
    }

    fn read(self) -> Sizes {
        let Self { counter, messages_before, tokens_before, tokens_after, limit } = self;
        Sizes { counter, messages_before, tokens_before, tokens_after, limit }
    }
}
