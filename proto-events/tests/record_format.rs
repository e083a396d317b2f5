//! The record's bytes are permanent: golden files, every truncation and every flipped bit of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod record_support;

use proto_events::codec::record::{
    EncodedRecord, EventBody, HeaderField, Record, RecordDraft, RecordError, RecordView,
};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, Version};
use record_support::{GOLDEN, draft_of, golden};

#[test]
fn the_golden_record_is_still_written_and_read_the_same() {
    let encoded = golden().encode().unwrap();
    assert_eq!(&**encoded.bytes(), GOLDEN);
    assert_eq!(
        encoded.hash().to_string(),
        "fa1d411a6f31aa97cfd1f559cb0e354c27ec6d45bb3b033d034219a97add97db"
    );
    let record = Record::decode(GOLDEN).unwrap();
    record.check_bodies().unwrap();
    assert_eq!(draft_of(&record), golden());
}

/// Checks the layout by hand, so that a change to both sides of the codec is noticed too.
#[test]
fn every_field_stands_where_the_document_says() {
    let at = |from: usize, bytes: &[u8]| assert_eq!(&GOLDEN[from..from + bytes.len()], bytes, "byte {from}");
    at(0, &[2]);
    at(1, &[0, 34]);
    at(3, b"task-weather%20desk/t%C3%A2che%2F1");
    at(37, &3_u64.to_be_bytes());
    at(45, b"set-id-of-16-byt");
    at(61, &[0, 1, 0, 2]);
    at(65, &5_u32.to_be_bytes());
    at(69, &9_u64.to_be_bytes());
    at(77, &1_795_000_000_123_456_i64.to_be_bytes());
    at(85, &[0, 9]);
    at(87, b"command-1");
    at(96, &[0, 5]);
    at(98, b"cause");
    at(103, &[0, 11]);
    at(105, "request ☃".as_bytes());
    at(116, &[0, 3]);
    at(118, b"ana");
    at(121, &[1]);
    at(122, &[0, 45]);
    at(124, &[0, 1, 0, 32]);
    let salt = Digest::of_parts(&[b"sixteen bytes of", &[0; 16]]);
    at(128, &Digest::of_parts(&[&salt.0, b"the command's content"]).0);
    at(160, &[0, 7, 0, 5]);
    at(164, b"later");
    at(169, &Digest::compute(b"the record before").0);
    at(201, &[0, 2]);
    at(203, &[0, 201, 1, 0, 0, 0, 10]);
    at(210, &Digest::compute(b"sixteen bytes offirst body").0);
    at(242, &[255, 255, 255, 0, 0, 0, 0]);
    at(249, &Digest::compute(&[0; 16]).0);
    let hashed = 281;
    assert_eq!(RecordView::peek(GOLDEN).unwrap().hashed_len(), hashed);
    at(hashed, &[0]);
    at(282, b"sixteen bytes of");
    at(298, b"first body");
    at(308, &[0; 17]);
    assert_eq!(GOLDEN.len(), 325);
    let leaf = Digest::of_parts(&[&[0], &GOLDEN[..hashed]]);
    assert_eq!(golden().encode().unwrap().hash(), leaf);
}

#[test]
fn every_flipped_bit_of_the_hashed_part_changes_the_leaf_hash_or_is_refused() {
    let good = RecordView::peek(GOLDEN).unwrap();
    let (hash, hashed) = (good.leaf_hash(), good.hashed_len());
    for bit in 0..hashed * 8 {
        let mut bad = GOLDEN.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(view) = RecordView::peek(&bad) {
            assert_ne!(view.leaf_hash(), hash, "bit {bit}");
        }
    }
}

#[test]
fn every_flipped_bit_beside_the_hashed_part_is_noticed_and_leaves_the_leaf_hash() {
    let good = RecordView::peek(GOLDEN).unwrap();
    let (hash, hashed) = (good.leaf_hash(), good.hashed_len());
    for bit in hashed * 8..GOLDEN.len() * 8 {
        let mut bad = GOLDEN.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(RecordView::peek(&bad).unwrap().leaf_hash(), hash);
        assert!(Record::decode(&bad).and_then(|record| record.check_bodies()).is_err(), "bit {bit}");
        assert!(EncodedRecord::from_bytes(&bad).is_err());
    }
}

#[test]
fn the_number_of_events_is_found_without_the_rest_and_never_where_it_is_cut_off() {
    assert_eq!(RecordView::count_events(GOLDEN), Ok(2));
    assert_eq!(RecordView::count_events(&GOLDEN[..203]), Ok(2));
    for length in 0..203 {
        let cut = RecordView::count_events(&GOLDEN[..length]);
        assert!(matches!(cut, Err(RecordError::Cut { .. })), "{length}");
    }
    assert_eq!(RecordView::count_events(&[3]), Err(RecordError::UnknownFormat { found: 3 }));
}

#[test]
fn every_cut_is_an_error_and_so_is_one_byte_more() {
    for length in 0..GOLDEN.len() {
        assert!(matches!(Record::decode(&GOLDEN[..length]), Err(RecordError::Cut { .. })), "{length}");
    }
    let more = [GOLDEN, &[0]].concat();
    assert_eq!(Record::decode(&more), Err(RecordError::Trailing { bytes: 1 }));
}

#[test]
fn another_format_and_a_reserved_place_are_errors_of_their_own() {
    for found in [1, 3] {
        let mut other = GOLDEN.to_vec();
        other[0] = found;
        assert_eq!(Record::decode(&other), Err(RecordError::UnknownFormat { found }));
    }
    for place in [2, 3, 255] {
        let mut bytes = GOLDEN.to_vec();
        bytes[281] = place;
        assert_eq!(Record::decode(&bytes), Err(RecordError::UnknownPlace { event: 0, place }));
        assert!(RecordView::peek(&bytes).is_ok(), "the header can be read all the same");
    }
}

#[test]
fn an_optional_field_that_a_reader_must_know_is_refused_and_any_other_is_kept() {
    let mut bytes = GOLDEN.to_vec();
    bytes[160] = 0x7f;
    let kept = Record::decode(&bytes).unwrap();
    assert_eq!((kept.fields[0].tag, kept.fields[0].bytes.as_slice()), (0x7f07, &b"later"[..]));
    bytes[160] = 0x80;
    assert_eq!(Record::decode(&bytes), Err(RecordError::UnknownField { tag: 0x8007 }));
    let field = |tag| HeaderField { tag, bytes: Vec::new() };
    for tags in [&[0][..], &[1], &[2, 2], &[3, 2], &[0x8000]] {
        let fields = tags.iter().map(|tag| field(*tag)).collect();
        let draft = RecordDraft { fields, ..golden() };
        assert!(matches!(draft.encode(), Err(RecordError::Value { .. })), "{tags:?}");
    }
    let draft = RecordDraft { fields: vec![field(2), field(0x7fff)], ..golden() };
    let bytes = draft.encode().unwrap();
    assert_eq!(draft_of(&Record::decode(bytes.bytes()).unwrap()), draft);
    for (from, to) in [(161, 1), (161, 0), (163, 4), (163, 6), (125, 0), (127, 31)] {
        let mut bytes = GOLDEN.to_vec();
        bytes[from] = to;
        assert!(RecordView::peek(&bytes).is_err(), "byte {from} as {to}");
    }
}

#[test]
fn the_digest_of_a_command_needs_the_salts_of_all_events_of_its_record() {
    let record = Record::decode(GOLDEN).unwrap();
    let digest = record.metadata.command_digest.unwrap();
    assert!(digest.matches(b"the command's content"));
    assert!(!digest.matches(b"another content"));
    for event in [0, 1] {
        let mut draft = golden();
        draft.events[event].salt[0] ^= 1;
        assert_eq!(draft.encode(), Err(RecordError::CommandSalt));
    }
    let unnamed = Metadata { command_digest: None, ..golden().metadata };
    let draft = RecordDraft { metadata: unnamed, fields: Vec::new(), ..golden() };
    let bytes = draft.encode().unwrap();
    assert_eq!(bytes.bytes().len(), GOLDEN.len() - 45, "a command without a digest costs no byte of it");
    assert_eq!(draft_of(&Record::decode(bytes.bytes()).unwrap()), draft);
}

/// Reads the bytes as a view and as a whole record.
fn both(bytes: &[u8]) -> (Result<(), RecordError>, Result<(), RecordError>) {
    let viewed =
        RecordView::peek(bytes).and_then(|view| view.events().try_for_each(|event| event.map(|_| ())));
    (viewed, Record::decode(bytes).map(|_| ()))
}

#[test]
fn a_view_finds_the_same_faults_as_reading_the_whole_and_no_body_that_stands_outside() {
    let view = RecordView::peek(CHUNKED).unwrap();
    let bodies: Vec<_> = view.events().map(|event| event.unwrap().body).collect();
    assert_eq!(bodies, [Some(&b"first body"[..]), None]);
    assert!(
        view.events().all(|event| event.is_ok_and(|event| event.matches_digest() == event.body.is_some()))
    );
    for golden in [GOLDEN, CHUNKED] {
        for length in 0..golden.len() {
            let (viewed, read) = both(&golden[..length]);
            assert_eq!(viewed, read, "cut at {length}");
        }
        for bit in 0..golden.len() * 8 {
            let mut bad = golden.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (viewed, read) = both(&bad);
            // A view does not check the form of the stream's name.
            if !matches!(read, Err(RecordError::Stream(_))) {
                assert_eq!(viewed, read, "bit {bit}");
            }
        }
    }
}

/// Returns the record in `golden/v2/record_chunked.bin`: the golden one with a body outside. Record, file and
/// the size of chunks must never change.
fn golden_chunked() -> RecordDraft {
    let mut draft = golden();
    draft.events[1].body = outside();
    draft
}

fn outside() -> Vec<u8> {
    (0..120_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

const CHUNKED: &[u8] = include_bytes!("golden/v2/record_chunked.bin");

#[test]
fn a_body_that_stands_outside_is_still_written_and_read_the_same() {
    let encoded = golden_chunked().encode_within(1_000).unwrap();
    assert_eq!(&**encoded.bytes(), CHUNKED);
    let whole = golden_chunked().encode().unwrap();
    assert_eq!(encoded.hash(), whole.hash(), "where a body stands is not hashed");
    let [detached] = encoded.detached() else { panic!("one body stands outside") };
    assert_eq!((detached.event, &*detached.body), (1, &outside()[..]));
    assert_eq!(detached.chunks().map(<[u8]>::len).collect::<Vec<_>>(), [57_344, 57_344, 5_312]);

    let mut record = Record::decode(CHUNKED).unwrap();
    assert_eq!(record.missing_bodies().collect::<Vec<_>>(), [(1, 120_000)]);
    assert_eq!(record.check_bodies(), Err(RecordError::BodyMissing { event: 1 }));
    assert_eq!(record.put_body(1, vec![0; 3]), Err(RecordError::BodyChanged { event: 1 }));
    assert_eq!(record.put_body(0, outside()), Err(RecordError::BodyChanged { event: 0 }));
    record.put_body(1, outside()).unwrap();
    record.check_bodies().unwrap();
    let again = EncodedRecord::with_bodies(CHUNKED, vec![(1, outside())]).unwrap();
    assert_eq!(again, encoded);
}

#[test]
fn a_body_outside_that_is_missing_or_changed_is_told() {
    let with = |bytes: &[u8], body: Vec<u8>| EncodedRecord::with_bodies(bytes, vec![(1, body)]).unwrap_err();
    assert_eq!(EncodedRecord::from_bytes(CHUNKED), Err(RecordError::BodyMissing { event: 1 }));
    let mut body = outside();
    body[119_999] ^= 1;
    assert_eq!(with(CHUNKED, body), RecordError::BodyChanged { event: 1 });
    let mut digest = CHUNKED.to_vec();
    *digest.last_mut().unwrap() ^= 1;
    assert_eq!(with(&digest, outside()), RecordError::BodyChanged { event: 1 });
    let mut count = CHUNKED.to_vec();
    let place = count.len() - 3 * 32 - 1;
    count[place] = 2;
    assert!(matches!(
        Record::decode(&count),
        Err(RecordError::Value { field: "number of chunks", value: 2 })
    ));
    for length in 0..CHUNKED.len() {
        assert!(matches!(Record::decode(&CHUNKED[..length]), Err(RecordError::Cut { .. })), "{length}");
    }
}

#[test]
fn only_as_many_bodies_go_outside_as_it_takes_the_largest_first() {
    let draft = |lengths: &[usize]| {
        let event = |length: &usize| EventBody { kind: 1, schema: 1, salt: [0; 16], body: vec![7; *length] };
        let metadata = Metadata { command_digest: None, ..golden().metadata };
        RecordDraft { events: lengths.iter().map(event).collect(), metadata, ..golden() }
    };
    let outside = |lengths: &[usize], limit: usize| {
        let encoded = draft(lengths).encode_within(limit).unwrap();
        let detached = encoded.detached().iter().map(|detached| detached.event).collect::<Vec<_>>();
        (detached, encoded.bytes().len())
    };
    let lengths = [10, 4_000, 900, 5_000, 34, 35];
    let all = draft(&lengths).size();
    assert_eq!(outside(&lengths, all), (vec![], all));
    assert_eq!(outside(&lengths, all - 1), (vec![3], all - 5_000 + 34));
    assert_eq!(outside(&lengths, 2_000).0, [1, 3]);
    // A body whose reference is not smaller stays inside, even if the record then exceeds the limit.
    assert_eq!(outside(&lengths, 0).0, [1, 2, 3, 5]);
}

#[test]
fn a_draft_that_no_record_can_hold_is_refused() {
    let refused = |change: &dyn Fn(&mut RecordDraft)| {
        let mut draft = golden();
        change(&mut draft);
        draft.encode().unwrap_err()
    };
    assert_eq!(refused(&|draft| draft.events.clear()), RecordError::EventCount { count: 0 });
    assert_eq!(
        refused(&|draft| draft.events = vec![draft.events[1].clone(); 1_025]),
        RecordError::EventCount { count: 1_025 }
    );
    assert!(matches!(refused(&|draft| draft.part = 2), RecordError::Value { .. }));
    assert!(matches!(refused(&|draft| draft.first_version = Version(0)), RecordError::Value { .. }));
    assert!(matches!(refused(&|draft| draft.first_version = Version(u64::MAX)), RecordError::Value { .. }));
    assert!(matches!(
        refused(&|draft| draft.metadata.causation_id = "x".repeat(65_536)),
        RecordError::TextTooLong { bytes: 65_536, .. }
    ));
    assert!(matches!(
        refused(&|draft| draft.events[0].body = vec![0; 16 * 1024 * 1024 + 1]),
        RecordError::BodyTooLarge { event: 0, .. }
    ));
}

#[test]
fn a_length_that_lies_costs_no_memory() {
    // A body length of 16 MiB without the body; 1,024 events announced but absent.
    let mut body = GOLDEN.to_vec();
    body[206..210].copy_from_slice(&(16_u32 * 1024 * 1024).to_be_bytes());
    assert!(matches!(Record::decode(&body), Err(RecordError::Cut { field: "body", .. })));
    body[206..210].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(Record::decode(&body), Err(RecordError::BodyTooLarge { .. })));
    let mut count = GOLDEN[..203].to_vec();
    count[201..203].copy_from_slice(&1_024_u16.to_be_bytes());
    assert!(matches!(Record::decode(&count), Err(RecordError::Cut { field: "events", .. })));
}
