//! Context strategies: the part of a long history that a model is shown, and its size, as pure functions over messages. A strategy returns which messages
//! are kept and how they are cut, as data for the inference's intent; it changes no history, and nothing that reads the log
//! needs it again.
//!
//! ```
//! use proto_events::model::{LlmMessage, LlmRole};
//! use taskreel_log::context::{ConversationFacts, FitContextWindow, select};
//! use taskreel_log::ports::Ports;
//!
//! let mut ports = Ports::default();
//! let long = "word ".repeat(100);
//! let said: Vec<LlmMessage> = [(LlmRole::User, "first question"), (LlmRole::Assistant, &long), (LlmRole::User, "second question")]
//!     .map(|(role, text)| LlmMessage::new(role, text, &mut ports))
//!     .into();
//! let selection = select(&FitContextWindow::new(100)?, &said.as_slice(), &mut ConversationFacts::new())?.unwrap();
//! assert_eq!((selection.keeps(0), selection.keeps(1), selection.keeps(2)), (false, false, true));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod compaction;
mod counter;
mod cut_text;
mod cuts_by_rule;
mod error;
#[cfg(feature = "tokens")]
mod exact;
mod facts;
mod fit_context_window;
mod history;
mod minimize_outputs;
mod minimized_sizes;
mod result_place;
mod rounds;
mod select;
mod sent_text;
mod strategy;
pub(crate) mod tokens;
mod transcript;
mod trim_rounds;
mod truncate_tool_outputs;
mod view;

pub use crate::context::chain::Chain;
pub use crate::context::compaction::{HistoryCompactor, HistoryCut, SUMMARY_HEADING, summary_message};
pub use crate::context::counter::{HeuristicTokens, MessageMeasure, ProtolinkTokens, TokenCounter};
pub use crate::context::error::{ContextError, SettingError};
#[cfg(feature = "tokens")]
pub use crate::context::exact::{ExactTokens, UnknownVocabulary};
pub use crate::context::facts::ConversationFacts;
pub use crate::context::fit_context_window::FitContextWindow;
pub use crate::context::history::{History, MeasuredHistory};
pub use crate::context::minimize_outputs::MinimizeOutputs;
pub(crate) use crate::context::result_place::RESULT;
pub use crate::context::result_place::ResultPlace;
pub use crate::context::rounds::{Division, Round, divide};
pub use crate::context::select::select;
pub use crate::context::sent_text::{SentText, sent_text};
pub use crate::context::strategy::{ContextStrategy, Rules};
pub use crate::context::tokens::{MessagesEstimate, estimate_tokens};
pub use crate::context::transcript::{Content, ContentPart, MessageView, Transcript};
pub use crate::context::trim_rounds::TrimRounds;
pub use crate::context::truncate_tool_outputs::TruncateToolOutputs;
pub use crate::context::view::{Reduction, View};
