//! The terminal inspector in a real terminal, which tmux is.

mod large;
mod live;
mod real;
mod tmux;
