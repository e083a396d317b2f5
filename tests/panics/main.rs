//! Panics in a host's code, log and clock.

mod fuse;
mod host;
mod panicking_clock;
mod panics;
mod panics_at_each_use;
mod panics_of_ports;
mod store;
