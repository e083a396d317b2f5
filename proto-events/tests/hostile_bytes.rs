//! Bytes from a damaged or hostile log: they cause an error, never a panic, and never use more memory than
//! the largest payload.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proptest::prelude::*;
use proto_events::codec::{AnyEvent, kind};
use proto_events::id::Category;

fn golden() -> Vec<(u16, Vec<u8>)> {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|file| {
            let path = file.unwrap().path();
            let number = path.file_stem()?.to_str()?.split_once('_')?.0.parse().ok()?;
            Some((number, std::fs::read(path).unwrap()))
        })
        .collect();
    found.sort();
    found
}

fn decode(kind: u16, body: &[u8]) -> bool {
    let known = Category::ALL.into_iter().map(Some);
    known.chain([None]).any(|category| AnyEvent::decode(category, kind, 1, body).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_are_an_error_or_an_event(
        at in 0..kind::ALL.len(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _either_is_fine = decode(kind::ALL[at].0, &body);
    }

    #[test]
    fn mutated_golden_bytes_are_an_error_or_an_event(
        which in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let golden = golden();
        let (kind, mut body) = golden[which.index(golden.len())].clone();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _either_is_fine = decode(kind, &body);
        let _either_is_fine = decode(kind, &body[..cut.index(body.len() + 1)]);
    }
}

#[test]
fn a_length_of_eight_exabytes_is_refused_before_memory_is_asked_for() {
    // A string with a claimed length of u64::MAX / 2: without a bound the process would abort.
    let mut body = vec![253];
    body.extend_from_slice(&(u64::MAX / 2).to_le_bytes());
    // The deletion of a checkpoint is one number, which these bytes are.
    for (kind, _) in kind::ALL.iter().filter(|(kind, _)| *kind != kind::CHECKPOINT_DELETED) {
        for category in Category::ALL {
            assert!(AnyEvent::decode(Some(category), *kind, 1, &body).is_err());
        }
    }
}
