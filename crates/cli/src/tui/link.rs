//! Addresses of an event: in the pages of an inspector, and in a server's API.

use taskreel_log::views::shell_word;

use crate::tui::data::EventRef;

/// Returns the address of an event in the pages at `base`; none if this program has no pages.
#[cfg(feature = "inspector")]
#[expect(clippy::unnecessary_wraps, reason = "without the pages there is none")]
pub(crate) fn page(base: &str, place: &EventRef) -> Option<String> {
    Some(taskreel_http::inspector_address(base, &place.stream, place.at))
}

/// Returns the address of an event in the pages at `base`; none if this program has no pages.
#[cfg(not(feature = "inspector"))]
pub(crate) fn page(_base: &str, _place: &EventRef) -> Option<String> {
    None
}

/// Returns the command that asks a server for an event. The token comes from the environment, so that it is not copied.
pub(crate) fn curl(url: &str, place: &EventRef) -> String {
    let address = format!(
        "{url}/api/v1/records?stream={}&from={}&records=1",
        place.stream.as_str().replace('%', "%25").replace('&', "%26").replace('#', "%23").replace('+', "%2B"),
        place.at
    );
    format!("curl -s -H \"Authorization: Bearer $TASKREEL_TOKEN\" {}", shell_word(&address))
}
