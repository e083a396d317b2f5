//! A client of Protolink's agents and registries, of ours and of the real ones: [`transport`] sends requests and reads
//! bounded answers, over HTTP or through a WebSocket of [`sockets`], as the [`address`] says; [`agents`] and
//! [`registries`] are the requests, [`events`] and [`sse`] read the events of a run. [`remote`] is an agent elsewhere as one
//! that a system may ask, and [`directory`] finds such in a registry. [`blocking_client`] is the client for programs that are not
//! asynchronous, [`registration`] keeps the agents of a server registered, and `exchange` is a request of any other kind
//! within the same bounds, for the clients of other protocols.

pub(crate) mod address;
pub(crate) mod agents;
pub(crate) mod blocking_client;
pub(crate) mod credentials;
pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod events;
#[cfg(feature = "a2a")]
pub(crate) mod exchange;
pub(crate) mod registration;
pub(crate) mod registries;
pub(crate) mod remote;
pub(crate) mod socket;
pub(crate) mod sockets;
pub(crate) mod sse;
pub(crate) mod transport;

pub use address::check_url;
pub use blocking_client::{BlockingClient, BlockingTaskEvents};
pub use credentials::Credentials;
pub use directory::RegistryDirectory;
pub use error::ClientError;
pub use events::TaskEventStream;
pub use registration::{Registration, RegistrationStatus, RegistrationWatch};
pub use remote::Remote;
pub use transport::Client;
