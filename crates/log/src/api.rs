//! The interface of a store: the traits for reading and appending, with records, appends, feeds and errors.
//! The implementations are [`memory`](crate::memory), [`sled`](crate::sled) and, for reading only,
//! [`jsonl`](crate::jsonl).

pub(crate) mod append;
pub(crate) mod check;
pub(crate) mod durability;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod feed;
pub(crate) mod figures;
pub(crate) mod holder;
pub(crate) mod in_order;
pub(crate) mod in_pieces;
pub(crate) mod note;
pub(crate) mod open_work;
pub(crate) mod page;
pub(crate) mod published_record;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod reply_sink;
pub(crate) mod scan;
pub(crate) mod store;

pub use append::{Append, AppendFuture, AppendPart, Appended};
pub use check::{WrittenPart, appended, check_append, other_history, repeated_append};
pub use durability::Durability;
pub use error::{AppendError, CloseError, OpenError, ReadError};
pub use failure::ReadFailure;
pub use feed::{Feed, FeedError};
pub use figures::{Distribution, Histogram, StoreFigures};
pub use holder::Holder;
pub use note::OpenNote;
pub use page::Page;
pub use reader::EventReader;
pub use record::{Fence, StoredRecord, StreamInfo};
pub use reply_sink::{Answers, AnswersBySink, AppendToken, ReplySink};
pub use scan::{Compare, ScanStep, ScannedRecord};
pub use store::EventStore;
