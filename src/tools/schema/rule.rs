//! The rules by which arguments are checked.

/// The rule by which arguments are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgsRule {
    /// The rule of the host's own tools, which is Protolink's: coerced, defaults filled in, closed at the root.
    Host,
    /// The rule of tools of other programs, see [`foreign`](super::foreign).
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only MCP servers bring tools of others"))]
    Foreign,
}
