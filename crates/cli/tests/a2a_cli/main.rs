//! `a2a`, by the rows of the specification of A2A command lines (a2aproject/a2a-cli, COMPLIANCE.md of version 0.2, 2026-08-17):
//! a test is named after the row that it shows. The agents are our own server, and a scripted one that answers what ours
//! cannot.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]
#![cfg(unix)]

#[path = "../binary/mod.rs"]
mod binary;
#[path = "../served/mod.rs"]
mod served;

mod auth;
mod auth_login;
mod cards;
mod checks;
mod forged;
mod interact;
mod output;
mod polling;
mod records;
mod sending;
mod tasks;
mod tool;

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binary::{Place, Ran};
use crate::served::Served;

/// Returns a command of `a2a` in a place whose user has no settings.
fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(std::iter::once("a2a").chain(args.iter().copied()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("A2ACLI_")) {
        command.env_remove(name);
    }
    command.env("HOME", place.path().join("home")).stdin(Stdio::null());
    command
}

/// Runs a command of `a2a` to its end.
fn run(place: &Place, args: &[&str]) -> Ran {
    Ran(command(place, args).output().unwrap())
}

/// Runs a command with these variables.
fn run_with(place: &Place, env: &[(&str, &str)], args: &[&str]) -> Ran {
    Ran(command(place, args).envs(env.iter().copied()).output().unwrap())
}

/// Starts our own server with the demo's tools.
fn ours(place: &Place) -> Served {
    Served::start(place, "--listen 127.0.0.1:0 --a2a", &[])
}

fn url(served: &Served) -> String {
    format!("http://{}", served.address)
}

impl Ran {
    /// Returns stdout as one JSON document.
    #[track_caller]
    fn document(&self) -> Value {
        let out = self.out();
        assert_eq!(out.lines().count(), 1, "one document: {out}{}", self.err());
        serde_json::from_str(&out).unwrap()
    }

    /// Returns the lines of stdout as JSON.
    #[track_caller]
    fn documents(&self) -> Vec<Value> {
        self.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the code of the failure on stdout.
    #[track_caller]
    fn failed(&self) -> String {
        let envelope = self.document();
        let error = envelope["error"].as_object().unwrap_or_else(|| panic!("no error: {envelope}"));
        let names: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(names, ["a2aCode", "code", "hint", "message"]);
        error["code"].as_str().unwrap().to_owned()
    }

    /// Returns the value of the last field with this label.
    #[track_caller]
    fn field(&self, label: &str) -> String {
        let out = self.out();
        let prefix = format!("{label}: ");
        let found = out.lines().filter_map(|line| line.strip_prefix(&prefix)).next_back();
        found.unwrap_or_else(|| panic!("no {label}: {out}{}", self.err())).to_owned()
    }
}
