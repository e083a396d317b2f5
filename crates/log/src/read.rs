//! Reading over any [`EventReader`](crate::api::EventReader): folds, scans page by page, subscriptions, open
//! work. Above [`api`](crate::api), below [`audit`](crate::audit) and [`views`](crate::views).

pub(crate) mod fold;
pub(crate) mod for_each;
pub(crate) mod steps;
pub(crate) mod subscription;

pub use fold::{CommandAnswer, FoldedStream, decode_record, fold_stream};
pub use for_each::{for_each_record, for_each_stream};
#[doc(hidden)]
pub use steps::{Step, Steps};
pub use subscription::{Delivery, Subscription};

pub use crate::api::in_pieces::{for_each_mapped, scan_mapped};
pub use crate::api::reader::{for_each_page, for_each_page_of, open_work};
