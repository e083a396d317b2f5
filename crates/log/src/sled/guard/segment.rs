//! The format of sled 0.34.7's file `db`, as far as it must be read without sled: segments of one size, each
//! a header and then messages with checksums. The version is pinned, so that the format cannot change
//! unnoticed.
//!
//! | bytes of a segment's header | little-endian |
//! |---|---|
//! | 4 | CRC32 of the rest, inverted |
//! | 8 | lsn of the segment, xor 0x7fff…: the number of bytes of log before it |
//! | 8 | highest lsn that was stable then, likewise |
//!
//! A message is CRC32 (4, inverted, of body and rest of the header), kind (1), then as sled's varints the
//! length of the body, the segment's number (lsn / size) and the page, then the body. A segment ends with a
//! `Cap` message or with fewer bytes than a header may need.

/// Bytes of a segment.
pub(crate) const SEGMENT_BYTES: usize = crate::sled::database::SEGMENT_BYTES;

/// Bytes of a segment, as a distance in the log.
pub(crate) const SEGMENT_LSN: u64 = SEGMENT_BYTES as u64;

/// Bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 20;

/// Bytes at the end of a segment in which no message begins.
pub(crate) const RED_ZONE: usize = 32;

/// Kinds of messages that are decoded.
const CAP: u8 = 2;
const FREE: u8 = 4;
const COUNTER: u8 = 5;
const INLINE_META: u8 = 6;
const INLINE_NODE: u8 = 8;
const INLINE_LINK: u8 = 10;
const KINDS: std::ops::RangeInclusive<u8> = 1..=11;

/// Most bytes whose checksums are computed in the searches for a message after a damaged one, in one segment.
const SEARCH_BYTES: usize = 64 * 1024 * 1024;

/// The contents of a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// The header is valid and has this lsn.
    Good(u64),
    /// The header was never written, or was cleared.
    Blank,
    /// The header is damaged.
    Bad,
}

/// Reads a segment's header.
pub(crate) fn header(bytes: &[u8; HEADER_BYTES]) -> Header {
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

/// Returns the highest lsn that was stable when a valid header was written.
pub(crate) fn stable_then(bytes: &[u8; HEADER_BYTES]) -> u64 {
    let stable = bytes.last_chunk().map(|lsn| u64::from_le_bytes(*lsn) ^ 0x7fff_ffff_ffff_ffff);
    // Before the first byte of a log, -1 is stable.
    stable.filter(|lsn| *lsn < 1 << 63).unwrap_or(0)
}

/// The change of a page that a message records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageChange {
    /// The page was written as a whole.
    Replaced,
    /// A change was added to the page.
    Linked,
    /// The page was given up.
    Freed,
}

/// A change of a page, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageWrite {
    pub(crate) lsn: u64,
    pub(crate) page: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) change: PageChange,
}

/// A message with a correct checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    kind: u8,
    /// The number of the segment for which the message was written.
    pub(crate) number: u64,
    /// The page that the message is about.
    pub(crate) page: u64,
    body: &'a [u8],
    /// The offset of the message.
    pub(crate) at: usize,
    /// The offset of the next message.
    pub(crate) next: usize,
}

impl<'a> Message<'a> {
    /// Whether the message is the last of its segment.
    pub(crate) fn is_cap(&self) -> bool {
        self.kind == CAP
    }

    /// Returns the change of a page that the message records, if it records one; its segment begins at these
    /// places.
    pub(crate) fn page_write(&self, lsn: u64, offset: u64) -> Option<PageWrite> {
        let change = match self.kind {
            FREE => PageChange::Freed,
            COUNTER | INLINE_META | INLINE_NODE => PageChange::Replaced,
            INLINE_LINK => PageChange::Linked,
            // Padding, and pieces in files that a log never has.
            _ => return None,
        };
        Some(PageWrite {
            lsn: lsn + self.at as u64,
            page: self.page,
            offset: offset + self.at as u64,
            bytes: (self.next - self.at) as u64,
            change,
        })
    }

    /// Returns the key that the message removes, if it removes one.
    pub(crate) fn removed(&self) -> Option<&'a [u8]> {
        let (1, rest) = (*self.body.first()?, self.body.get(1..)?) else { return None };
        let (length, used) = varint(rest).filter(|_| self.kind == INLINE_LINK)?;
        rest.get(used..)?.get(..usize::try_from(length).ok()?)
    }

    /// Returns the page of a tree that the message writes as a whole, if it writes one.
    pub(crate) fn node(&self) -> Option<&'a [u8]> {
        Some(self.body).filter(|_| self.kind == INLINE_NODE)
    }

    /// Returns the roots of all trees, if the message writes them.
    pub(crate) fn roots(&self) -> Option<&'a [u8]> {
        Some(self.body).filter(|_| self.kind == INLINE_META)
    }

    /// Returns key and value, if the message sets one in a tree.
    pub(crate) fn set(&self) -> Option<(&'a [u8], &'a [u8])> {
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

/// Decodes sled's varint, and returns the number of bytes it takes.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
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

/// Encodes sled's varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=240 => out.push(bytes[0]),
        241..=2_287 => out.extend([241 + (value - 240).to_le_bytes()[1], (value - 240).to_le_bytes()[0]]),
        2_288..=67_823 => {
            let rest = (value - 2_288).to_le_bytes();
            out.extend([249, rest[1], rest[0]]);
        }
        _ => {
            let count = (8 - value.leading_zeros() / 8).max(3);
            out.push(u8::try_from(247 + count).unwrap_or(u8::MAX));
            out.extend(bytes.iter().take(count as usize));
        }
    }
}

/// The fields of a message's header.
struct Outline {
    kind: u8,
    /// The number of its segment.
    number: u64,
    page: u64,
    /// Bytes of the header.
    header: usize,
    /// Bytes of the body.
    length: usize,
}

/// Decodes a message's header without checking its checksum.
fn outline(bytes: &[u8]) -> Option<Outline> {
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
    let (length, number, page) = (next()?, next()?, next()?);
    let length = usize::try_from(length).ok()?;
    let is_inside = length <= bytes.len().checked_sub(at)?;
    is_inside.then_some(Outline { kind, number, page, header: at, length })
}

/// Returns the message at an offset of a segment, if it is whole; only for the segment with this number, if
/// one is given.
pub(crate) fn message(segment: &[u8], at: usize, wanted: Option<u64>) -> Option<Message<'_>> {
    let bytes = segment.get(at..)?;
    let Outline { kind, number, page, header, length } = outline(bytes)?;
    if wanted.is_some_and(|wanted| wanted != number) {
        return None;
    }
    let body = bytes.get(header..header + length)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(body);
    crc.update(bytes.get(4..header)?);
    let right = bytes.starts_with(&(!crc.finalize()).to_le_bytes());
    right.then_some(Message { kind, number, page, body, at, next: at + header + length })
}

/// An iterator over the whole messages of a segment from `at` on, up to the first incomplete one.
pub(crate) struct SegmentMessages<'a> {
    segment: &'a [u8],
    pub(crate) number: u64,
    /// The offset of the next message.
    pub(crate) at: usize,
    /// Whether the segment ended as a full one does.
    pub(crate) full: bool,
}

impl<'a> SegmentMessages<'a> {
    pub(crate) fn new(segment: &'a [u8], number: u64, at: usize) -> Self {
        Self { segment, number, at, full: false }
    }
}

impl<'a> Iterator for SegmentMessages<'a> {
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

/// The bytes of checksums that the searches in one segment may still compute. Data crafted to look like messages must not keep
/// the log from opening, however many searches it takes to pass them.
#[derive(Debug)]
pub(crate) struct SearchBudget(usize);

impl Default for SearchBudget {
    fn default() -> Self {
        Self(SEARCH_BYTES)
    }
}

/// Returns the first offset from `from` on where a whole message begins, and the number of its segment; `None` too once the
/// budget of the segment is used up.
pub(crate) fn search(
    segment: &[u8],
    from: usize,
    wanted: Option<u64>,
    budget: &mut SearchBudget,
) -> Option<(usize, u64)> {
    // Most offsets have no kind there, and cost nothing.
    let kinds = segment.iter().enumerate().skip(from + 4).filter(|(_, kind)| KINDS.contains(kind));
    for at in kinds.map(|(at, _)| at - 4) {
        let Some(Outline { number, length, .. }) = segment.get(at..).and_then(outline) else { continue };
        if wanted.is_some_and(|wanted| wanted != number) {
            continue;
        }
        budget.0 = budget.0.checked_sub(length)?;
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
            let mut messages = SegmentMessages::new(segment, lsn / SEGMENT_LSN, HEADER_BYTES);
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
    fn a_flipped_bit_ends_the_messages_and_the_search_continues_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = segments(dir.path());
        file.truncate(SEGMENT_BYTES);
        let mut all = SegmentMessages::new(&file, 0, HEADER_BYTES);
        let starts: Vec<usize> =
            std::iter::from_fn(|| Some((all.at, all.next()?))).map(|(at, _)| at).collect();
        for flipped in [starts[3], starts[3] + 4, starts[4] - 1] {
            let mut bad = file.clone();
            bad[flipped] ^= 8;
            let mut messages = SegmentMessages::new(&bad, 0, HEADER_BYTES);
            assert_eq!(messages.by_ref().count(), 3);
            assert_eq!(messages.at, starts[3]);
            assert_eq!(
                search(&bad, messages.at + 1, Some(0), &mut SearchBudget::default()),
                Some((starts[4], 0))
            );
        }
    }
}
