//! Tools of other programs: servers that speak the Model Context Protocol, over the standard streams of a child process
//! or over HTTP. Their tools are listed at the start and then are tools like any other: checked, called, timed out,
//! recorded, replayed.
//!
//! What a server says of its tools (that one only reads, that one may be called twice) are hints, and a server that is
//! not ours may say anything. They decide nothing unless [`McpServer::trust_hints`] is asked for; without it a tool's
//! recovery mode is Manual, or the one that [`McpServer::policy`] gives it. An intent keeps who declared it.
//!
//! | file | holds |
//! |---|---|
//! | [`server`] | how a server is described, and what may be done with its tools' calls |
//! | `connection` | the connection: made at the first need, made anew when it is gone |
//! | `call` | one call: its progress, its cancel |
//! | `answer` | what came back, as a tool's result or failure |

mod answer;
mod call;
mod connection;
pub mod server;

pub use server::McpServer;
