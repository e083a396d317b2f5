//! The local socket of a log: a Unix socket in the log's directory, which the program that holds the log opens. Through it
//! other processes of the same user read and follow the log while it is written, and send a person's decisions.
//!
//! A [`LocalSocket`] serves the calls of [`EventReader`](crate::api::EventReader) from the store that the program writes with,
//! as any other reader in the program would, and subscriptions to it. It has no way to append: who carries out a
//! person's decisions is an [`OperatorHandler`] that the program gives it. [`SocketReader`] and [`SocketFollower`] are its
//! clients; a [`SteadyReader`] goes on with a private copy when the program ends.
//!
//! Only processes of the same user and of root are served. Whatever a client sends, or does not read, costs at most its
//! own connection: there are bounds for the connections, for each frame, and for the time that each may take.

pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod follower;
pub(crate) mod frame;
pub(crate) mod link;
pub(crate) mod operator;
pub(crate) mod peer;
pub(crate) mod place;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod server;
pub(crate) mod state;
pub(crate) mod steady;
pub(crate) mod wire;

pub use error::{FollowEnd, OperatorError, SocketError, SocketUnavailable};
pub use follower::{FollowerItem, SocketFollower};
pub use operator::{OperatorHandler, OperatorRefusal, OperatorReply, OperatorRequest, RefusalKind};
pub use peer::Peer;
pub use place::SOCKET_FILE;
pub use reader::SocketReader;
pub use server::{LocalSocket, SocketPath};
pub use steady::SteadyReader;
