//! Tools of other programs: servers that speak the Model Context Protocol, over the standard streams of a
//! child process or over HTTP. The tools are listed at the start, or later if the server is not ready, and then are
//! like any other tool: checked, called, timed out, recorded, replayed.
//!
//! A server's statements about its tools (that one only reads, that one may be called twice) are hints, and
//! not every server is trustworthy. They are ignored unless [`McpServer::trust_hints`] is set; without it a
//! tool's recovery mode is Manual, or the one set with [`McpServer::policy`]. An intent records who declared
//! it.
//!
//! | file | holds |
//! |---|---|
//! | [`server`] | the description of a server, and the policies of its tools |
//! | `admission` | the choice of the listed tools that can be used |
//! | `servers` | all servers of an agent, with the status of each |
//! | `connection` | the connection: opened on first use, reopened when it is lost |
//! | `call` | one call: its progress, its cancel |
//! | `answer` | the answer as a tool's result or failure |
//! | `listed` | the tools of a list, read one by one |
//! | `schema` | the schemas of tools in the form that providers take |
//! | `stdio` | the transport to a program: log lines, lines that cannot be read or are too long |
//! | `repair` | JSON that only a lenient reader takes |
//! | `process` | the process group of a program, which ends with its connection |

pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod process;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod stdio;
pub(crate) mod tool_list;
pub(crate) mod transport;
