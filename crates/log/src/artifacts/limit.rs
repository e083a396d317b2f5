//! The limits of what is shown, checked when they are made.

use crate::artifacts::error::ArtifactError;

/// The smallest limit, in characters: a minimized text shows at least one from each end.
pub(super) const LIMIT_MIN: usize = 2;

/// The characters that are shown of an artifact unless a host says otherwise.
const LIMIT_DEFAULT: usize = 50_000;

/// The characters that a string inside a minimized object keeps unless a host says otherwise.
pub(super) const STRING_LENGTH_DEFAULT: usize = 5_000;

/// The room for a marker, the ranges and a tip beside the text that is shown, in characters.
pub(super) const CAP_ROOM: usize = 1_024;

/// The smallest cap of a minimized form, in characters: a summary of a small value needs room, whatever the limit.
const CAP_MIN: usize = 16_384;

/// A number of characters (code points) that may be shown: at least two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CharacterLimit(usize);

impl CharacterLimit {
    /// Checks a limit.
    ///
    /// # Errors
    /// [`ArtifactError::LimitTooSmall`] below two characters.
    pub fn new(characters: usize) -> Result<Self, ArtifactError> {
        at_least("character_limit", LIMIT_MIN, characters).map(Self)
    }

    /// Returns the number of characters.
    pub const fn get(self) -> usize {
        self.0
    }

    /// Returns the size that a minimized form as JSON under this limit never exceeds: twice the limit, and at least 16,384
    /// characters.
    #[must_use]
    pub fn cap(self) -> usize {
        self.0.saturating_mul(2).max(CAP_MIN)
    }

    /// Returns the smallest limit.
    pub(crate) const fn least() -> Self {
        Self(LIMIT_MIN)
    }

    /// Returns the limit of which a minimized text shows this many characters from each end, at least one.
    pub(super) fn of_half(characters: usize) -> Self {
        Self(characters.saturating_mul(2).max(LIMIT_MIN))
    }

    /// Returns half the limit, or the smallest one.
    pub(crate) fn half(self) -> Self {
        Self((self.0 / 2).max(LIMIT_MIN))
    }

    /// Returns the limit under which a text fits `cap` with what is said about it, for which there is this much room.
    pub(super) fn within(self, cap: usize, room: usize) -> Self {
        Self(self.0.min(cap.saturating_sub(room)).max(LIMIT_MIN))
    }
}

impl Default for CharacterLimit {
    /// The limit of a2a-utils: 50,000 characters.
    fn default() -> Self {
        Self(LIMIT_DEFAULT)
    }
}

fn at_least(name: &'static str, min: usize, got: usize) -> Result<usize, ArtifactError> {
    if got < min { Err(ArtifactError::LimitTooSmall { name, min, got }) } else { Ok(got) }
}

/// The settings of what a model is shown of artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactSettings {
    send_message: CharacterLimit,
    string_length: usize,
    view: CharacterLimit,
    cap: Option<usize>,
}

impl ArtifactSettings {
    /// Checks the settings: the characters above which an artifact of an answer is minimized, those that a string in a
    /// minimized object keeps, and those that a view may show.
    ///
    /// # Errors
    /// [`ArtifactError::LimitTooSmall`] if one of them is below two.
    pub fn new(
        send_message_character_limit: usize,
        minimized_object_string_length: usize,
        view_artifact_character_limit: usize,
    ) -> Result<Self, ArtifactError> {
        let limit = |name, characters| at_least(name, LIMIT_MIN, characters).map(CharacterLimit);
        Ok(Self {
            send_message: limit("send_message_character_limit", send_message_character_limit)?,
            string_length: at_least(
                "minimized_object_string_length",
                LIMIT_MIN,
                minimized_object_string_length,
            )?,
            view: limit("view_artifact_character_limit", view_artifact_character_limit)?,
            cap: None,
        })
    }

    /// Sets the size that a minimized form never exceeds, instead of [`CharacterLimit::cap`].
    ///
    /// # Errors
    /// [`ArtifactError::LimitTooSmall`] if it leaves no room for a text of the limit's length and what is said about it.
    pub fn with_cap(self, characters: usize) -> Result<Self, ArtifactError> {
        let min = self.send_message.get().saturating_add(CAP_ROOM);
        Ok(Self { cap: Some(at_least("cap", min, characters)?), ..self })
    }

    /// Returns the characters above which an artifact of an answer is minimized.
    pub const fn send_message_character_limit(&self) -> CharacterLimit {
        self.send_message
    }

    /// Returns the characters that a string in a minimized object keeps.
    pub const fn minimized_object_string_length(&self) -> usize {
        self.string_length
    }

    /// Returns the characters that a view may show.
    pub const fn view_artifact_character_limit(&self) -> CharacterLimit {
        self.view
    }

    /// Whether a host chose the cap.
    pub(super) const fn has_own_cap(&self) -> bool {
        self.cap.is_some()
    }

    /// Returns the size that a minimized form as JSON never exceeds, in characters.
    pub fn cap(&self) -> usize {
        self.cap.unwrap_or_else(|| self.send_message.cap())
    }
}

impl Default for ArtifactSettings {
    /// The settings of a2a-utils: 50,000, 5,000 and 50,000 characters.
    fn default() -> Self {
        Self {
            send_message: CharacterLimit::default(),
            string_length: STRING_LENGTH_DEFAULT,
            view: CharacterLimit::default(),
            cap: None,
        }
    }
}
