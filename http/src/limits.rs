//! The bounds of the faces, each with its unit and its reason.

/// The most bytes of a request's body: a payload of 16 MiB, its envelope and escapes.
pub const BODY_MAX: usize = 20 * 1024 * 1024;

/// The bytes that a socket after an upgrade buffers in each direction.
pub const SOCKET_BUFFER: usize = 64 * 1024;
