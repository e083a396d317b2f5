//! A client of Protolink's agents and registries, of ours and of the real ones: [`transport`] sends requests and reads
//! bounded answers, over HTTP or through the WebSockets of [`sockets`], as the [`address`] says; [`agents`] and
//! [`registries`] are the requests, [`events`] and [`sse`] read the events of a run, and [`remote`] is an agent elsewhere as
//! one that a system may ask. [`blocking`] is the client for programs that are not asynchronous.

pub(crate) mod address;
pub(crate) mod agents;
pub(crate) mod blocking;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod registries;
pub(crate) mod remote;
pub(crate) mod socket;
pub(crate) mod sockets;
pub(crate) mod sse;
pub(crate) mod transport;

pub use blocking::{BlockingClient, BlockingTaskEvents};
pub use credentials::Credentials;
pub use error::ClientError;
pub use events::TaskEventStream;
pub use remote::Remote;
pub use transport::Client;
