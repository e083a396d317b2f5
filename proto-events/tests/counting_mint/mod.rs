//! A mint whose ids count up, for tests.

use proto_events::id::Mint;

/// A mint with increasing ids and a constant time.
#[derive(Debug, Default)]
pub(crate) struct CountingMint(u32);

impl Mint for CountingMint {
    fn id(&mut self, prefix: &str) -> String {
        self.0 += 1;
        format!("{prefix}20260101000000_{:08x}", self.0)
    }

    fn uuid(&mut self) -> String {
        self.0 += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.0)
    }

    fn timestamp(&mut self) -> String {
        "2026-01-01T00:00:00.000001+00:00".to_owned()
    }
}
