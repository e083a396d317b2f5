//! The compiler's messages about functions that cannot be tools: they lead to the mistake.
//!
//! The texts are those of one compiler. `TRYBUILD=overwrite cargo test --no-default-features --test
//! tool_signatures` rewrites them; then raise `COMPILER`, and read the new texts as a person who has made the
//! mistake.
//!
//! The library is built once more for it, by itself: only where that is quick, which is without the
//! clients of models (`cargo test --no-default-features --test tool_signatures`).
#![cfg(not(feature = "openai"))]

use std::process::Command;

/// The compiler whose messages are in `compile_fail/*.stderr`.
const COMPILER: &str = "rustc 1.95";

#[test]
fn a_wrong_signature_is_told_in_words_that_lead_to_the_mistake() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        eprintln!("not checked: the words are those of {COMPILER}, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
