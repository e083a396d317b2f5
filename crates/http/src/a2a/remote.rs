//! An A2A agent elsewhere as one that a system may ask.
//!
//! ```text
//! directory ─▶ peer ─▶ work ─▶ start, follow ─▶ line ─▶ said
//! ```
//!
//! [`directory`] finds agents by their cards, [`peer`] is the agent, [`work`] one attempt of a question to it, [`start`] the sending of the task, up to the moment when the
//! id is known that the agent gives it, and [`follow`] the wait for that task's end. [`line`] is the way to the agent, which is
//! found when it is first needed, and [`messages`] what is sent and what comes back.

pub(crate) mod directory;
pub(crate) mod follow;
pub(crate) mod line;
pub(crate) mod messages;
pub(crate) mod peer;
pub(crate) mod start;
pub(crate) mod work;
