//! The style of a report, which stands inside of it, and the policy that lets this style in and nothing else.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("../../assets/inspect/inspect.css");

/// Returns the policy of a report: this style by its digest, no script, no picture, no request.
pub(crate) fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let digest = STANDARD.encode(Sha256::digest(STYLE));
        format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
    })
}
