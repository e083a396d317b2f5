//! The messages that a model is shown for one inference, stated once: the count in the intent, the budget's estimate
//! and the request to the backend are made from the same value, and a reader makes it again from the log. Pure, and
//! below the readers that check prompts.

pub(crate) mod digest;
pub(crate) mod images;
pub(crate) mod messages;
pub(crate) mod offer;
pub(crate) mod prompts;
pub(crate) mod summary;
pub(crate) mod system_prompt;
mod transcript;

pub use crate::shown::digest::{PromptDigest, prompt_digest, prompt_digest_from};
pub use crate::shown::images::ImageRef;
pub use crate::shown::messages::{InferenceMessages, system_of};
pub use crate::shown::offer::{CALLS, NATIVE, Offer, OfferedAgent, OfferedTool, UnreadableOffer};
pub use crate::shown::prompts::{
    Prompt, PromptError, PromptReader, PromptedEvent, output_schema_of, prompt_of,
};
pub use crate::shown::summary::{SummaryPrompt, escape_controls, extract_summary};
pub use crate::shown::system_prompt::{RENDERER_VERSION, for_task, system_prompt, with_output_schema};
pub(crate) use crate::shown::system_prompt::{hint_of, with_hint};
