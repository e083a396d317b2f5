//! The bytes of sled 0.34.7's file `db`, as far as they must be understood without sled: segments of one size, each
//! a header and then messages with checksums. The version is pinned, so that this cannot change under us.
//!
//! | bytes of a segment's header | little-endian |
//! |---|---|
//! | 4 | CRC32 of the rest, inverted |
//! | 8 | lsn of the segment, xor 0x7fff…: how many bytes of log stand before it |
//! | 8 | highest lsn that was stable then, likewise |
//!
//! A message is CRC32 (4, inverted, of body and rest of the header), kind (1), then as sled's varints the length of
//! the body, the segment's number (lsn / size) and the page, then the body. A segment ends with a `Cap` message or
//! with fewer bytes than a header may need.

/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = super::super::open::SEGMENT_BYTES;

/// The same, as distances in the log.
pub(super) const SEGMENT_LSN: u64 = SEGMENT_BYTES as u64;

/// Bytes of a segment's header.
pub(super) const HEADER_BYTES: usize = 20;

/// No message begins in so many last bytes.
const RED_ZONE: usize = 32;

/// Kinds of messages that are looked into.
const CAP: u8 = 2;
const INLINE_LINK: u8 = 10;
const KINDS: std::ops::RangeInclusive<u8> = 1..=11;

/// Bytes whose checksums are computed at most while looking for a message behind a damaged one.
const SEARCH_BYTES: usize = 64 * 1024 * 1024;

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// The segment's lsn.
    Good(u64),
    /// Never written, or cleared.
    Blank,
    /// Something else was written there.
    Bad,
}

/// Reads a segment's header.
pub(super) fn header(bytes: &[u8; HEADER_BYTES]) -> Header {
    if bytes.iter().all(|byte| *byte == 0) {
        return Header::Blank;
    }
    let (crc, rest) = bytes.split_at(4);
    let lsn = rest.first_chunk().map(|lsn| u64::from_le_bytes(*lsn) ^ 0x7fff_ffff_ffff_ffff);
    match lsn {
        Some(lsn) if crc == (!crc32fast::hash(rest)).to_le_bytes() && lsn.is_multiple_of(SEGMENT_LSN) => {
            Header::Good(lsn)
        }
        _ => Header::Bad,
    }
}

/// A message whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    kind: u8,
    /// The number of the segment that it was written for.
    pub(super) number: u64,
    body: &'a [u8],
    /// Where the next one begins.
    pub(super) next: usize,
}

impl<'a> Message<'a> {
    /// Nothing follows in this segment.
    pub(super) fn is_cap(&self) -> bool {
        self.kind == CAP
    }

    /// Key and value, if it sets one in a tree.
    pub(super) fn set(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (0, rest) = (*self.body.first()?, self.body.get(1..)?) else { return None };
        if self.kind != INLINE_LINK {
            return None;
        }
        let (length, used) = varint(rest)?;
        let (key, rest) = rest.get(used..)?.split_at_checked(usize::try_from(length).ok()?)?;
        let (length, used) = varint(rest)?;
        Some((key, rest.get(used..)?.get(..usize::try_from(length).ok()?)?))
    }
}

/// sled's varint, and how many bytes it takes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let byte = |at: usize| bytes.get(at).copied().map(u64::from);
    let first = byte(0)?;
    match first {
        0..=240 => Some((first, 1)),
        241..=248 => Some((240 + 256 * (first - 241) + byte(1)?, 2)),
        249 => Some((2_288 + 256 * byte(1)? + byte(2)?, 3)),
        _ => {
            let count = usize::try_from(first - 247).ok()?;
            let digits = bytes.get(1..=count)?;
            Some((digits.iter().rev().fold(0, |sum, digit| (sum << 8) | u64::from(*digit)), count + 1))
        }
    }
}

/// The header of a message, its checksum not looked at: kind, number of its segment, bytes of header and body.
fn outline(bytes: &[u8]) -> Option<(u8, u64, usize, usize)> {
    let kind = *bytes.get(4)?;
    if !KINDS.contains(&kind) {
        return None;
    }
    let mut at = 5;
    let mut next = || {
        let (value, used) = varint(bytes.get(at..)?)?;
        at += used;
        Some(value)
    };
    let (length, number, _page) = (next()?, next()?, next()?);
    let length = usize::try_from(length).ok()?;
    (length <= bytes.len().checked_sub(at)?).then_some((kind, number, at, length))
}

/// The message at a place of a segment, if it is whole; of the segment with this number, if one is given.
pub(super) fn message(segment: &[u8], at: usize, wanted: Option<u64>) -> Option<Message<'_>> {
    let bytes = segment.get(at..)?;
    let (kind, number, header, length) = outline(bytes)?;
    if wanted.is_some_and(|wanted| wanted != number) {
        return None;
    }
    let body = bytes.get(header..header + length)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(body);
    crc.update(bytes.get(4..header)?);
    let right = bytes.starts_with(&(!crc.finalize()).to_le_bytes());
    right.then_some(Message { kind, number, body, next: at + header + length })
}

/// The whole messages of a segment from `at` on, up to the first that is not.
pub(super) struct Messages<'a> {
    segment: &'a [u8],
    pub(super) number: u64,
    /// Where the next one begins.
    pub(super) at: usize,
    /// Whether the segment ended as a full one does.
    pub(super) full: bool,
}

impl<'a> Messages<'a> {
    pub(super) fn of(segment: &'a [u8], number: u64, at: usize) -> Self {
        Self { segment, number, at, full: false }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        self.full |= self.at > SEGMENT_BYTES - RED_ZONE;
        if self.full {
            return None;
        }
        let message = message(self.segment, self.at, Some(self.number))?;
        self.at = message.next;
        self.full = message.is_cap();
        Some(message)
    }
}

/// The first place from `at` on where a whole message stands, and the number of its segment.
pub(super) fn search(segment: &[u8], from: usize, wanted: Option<u64>) -> Option<(usize, u64)> {
    let mut left = SEARCH_BYTES;
    // Most places have no kind there, and cost nothing.
    let kinds = segment.iter().enumerate().skip(from + 4).filter(|(_, kind)| KINDS.contains(kind));
    for at in kinds.map(|(place, _)| place - 4) {
        let Some((_, number, _, length)) = segment.get(at..).and_then(outline) else { continue };
        if wanted.is_some_and(|wanted| wanted != number) {
            continue;
        }
        // What somebody made to look like messages must not keep the log from opening.
        left = left.checked_sub(length)?;
        if let Some(found) = message(segment, at, wanted) {
            return Some((at, found.number));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(dir: &std::path::Path) -> Vec<u8> {
        let db = ::sled::Config::new().path(dir).segment_size(SEGMENT_BYTES).open().unwrap();
        for n in 0_u32..200 {
            db.insert(n.to_be_bytes(), vec![7; 30_000]).unwrap();
        }
        db.flush().unwrap();
        std::fs::read(dir.join("db")).unwrap()
    }

    #[test]
    fn what_sled_writes_is_read_and_every_key_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = segments(dir.path());
        let (mut keys, mut lsn) = (Vec::new(), 0);
        for segment in file.chunks(SEGMENT_BYTES) {
            assert_eq!(header(segment.first_chunk().unwrap()), Header::Good(lsn));
            let mut messages = Messages::of(segment, lsn / SEGMENT_LSN, HEADER_BYTES);
            keys.extend(messages.by_ref().filter_map(|message| message.set().map(|(key, _)| key.to_vec())));
            assert!(messages.full || messages.at == segment.len(), "{} of {}", messages.at, segment.len());
            lsn += SEGMENT_LSN;
        }
        assert!(lsn > SEGMENT_LSN, "several segments are wanted");
        for n in 0_u32..200 {
            assert!(keys.contains(&n.to_be_bytes().to_vec()) || n % 10 == 9, "{n}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_messages_and_the_search_goes_on_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = segments(dir.path());
        file.truncate(SEGMENT_BYTES);
        let mut all = Messages::of(&file, 0, HEADER_BYTES);
        let starts: Vec<usize> =
            std::iter::from_fn(|| Some((all.at, all.next()?))).map(|(at, _)| at).collect();
        for flipped in [starts[3], starts[3] + 4, starts[4] - 1] {
            let mut bad = file.clone();
            bad[flipped] ^= 8;
            let mut messages = Messages::of(&bad, 0, HEADER_BYTES);
            assert_eq!(messages.by_ref().count(), 3);
            assert_eq!(messages.at, starts[3]);
            assert_eq!(search(&bad, messages.at + 1, Some(0)), Some((starts[4], 0)));
        }
    }
}
