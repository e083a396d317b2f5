//! Damages to a log, in a form that can be passed to another process and repeated.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use crate::base::{Base, names};
use crate::dice::Dice;

/// The size of a segment of the database in bytes.
const SEGMENT: u64 = 4 * 1024 * 1024;

/// A damage to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) base: String,
    pub(crate) how: How,
    pub(crate) file: String,
    pub(crate) at: u64,
}

/// The kind of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The bit with this number is flipped.
    Flip,
    /// The file ends at this byte.
    Cut,
    /// The sector that begins at this byte is zeroed.
    Zero,
    /// The file is missing.
    Missing,
    /// The file has its earlier contents.
    Old,
    /// The file holds noise of the same length.
    Noise,
    /// A copy of the file has its name with an ending that a crash would leave.
    Half,
    /// The earlier files are copied over the log, as a backup is: newer snapshots stay.
    Backup,
    /// The segment that begins at this byte stands at the end of the file too.
    Doubled,
}

const WORDS: [(How, &str); 9] = [
    (How::Flip, "flip"),
    (How::Cut, "cut"),
    (How::Zero, "zero"),
    (How::Missing, "missing"),
    (How::Old, "old"),
    (How::Noise, "noise"),
    (How::Half, "half"),
    (How::Backup, "backup"),
    (How::Doubled, "doubled"),
];

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(how, _)| *how == self.how).unwrap().1;
        write!(f, "{} {word} {} {}", self.base, self.file, self.at)
    }
}

impl FromStr for Damage {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let [base, word, file, at] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("`{text}` is no damage");
        };
        let how = WORDS.iter().find(|(_, known)| *known == word).unwrap().0;
        Ok(Self { base: base.to_owned(), how, file: file.to_owned(), at: at.parse()? })
    }
}

impl Damage {
    fn new(base: &Base, how: How, file: &str, at: u64) -> Self {
        Self { base: base.name.to_owned(), how, file: file.to_owned(), at }
    }

    /// Returns a flip somewhere in a log: in any file, more often in the database, and there also in its
    /// structure.
    pub(crate) fn any_flip(base: &Base, dice: &mut Dice) -> Self {
        let files = base.files();
        let file = match dice.below(10) {
            0..=6 => "db".to_owned(),
            _ => files[usize::try_from(dice.below(files.len() as u64)).unwrap()].clone(),
        };
        let bytes = used(&base.dir.join(&file));
        let at = match dice.below(4) {
            0 if file == "db" => bytes.saturating_sub(1 + dice.below(8 * 1024)),
            1 if file == "db" => dice.below(1 + bytes / SEGMENT) * SEGMENT + dice.below(2_000),
            _ => dice.below(bytes.max(1)),
        };
        Self::new(base, How::Flip, &file, at.min(bytes.saturating_sub(1)) * 8 + dice.below(8))
    }

    /// Returns cuts at and around the boundaries of sectors, `count` of them, and at both ends.
    pub(crate) fn cuts(base: &Base, count: u64, dice: &mut Dice) -> Vec<Self> {
        let bytes = used(&base.dir.join("db"));
        let mut at: Vec<u64> = (0..count).map(|_| dice.below(bytes / 512 + 1) * 512).collect();
        at.extend([
            0,
            1,
            19,
            20,
            21,
            511,
            512,
            bytes - 1,
            bytes.saturating_sub(33),
            bytes / SEGMENT * SEGMENT,
        ]);
        at.extend((0..count / 4).map(|_| dice.below(bytes)));
        at.into_iter().map(|at| Self::new(base, How::Cut, "db", at)).collect()
    }

    /// Returns a backup that is copied over the log, and each segment of the database twice.
    pub(crate) fn of_copies(base: &Base) -> Vec<Self> {
        let segments = fs::metadata(base.dir.join("db")).unwrap().len().div_ceil(SEGMENT);
        let doubled = (0..segments).map(|number| Self::new(base, How::Doubled, "db", number * SEGMENT));
        // The log of one life has no earlier state.
        let backup = (base.name != "first").then(|| Self::new(base, How::Backup, "db", 0));
        doubled.chain(backup).collect()
    }

    /// Returns each file missing, old, full of noise, empty, and half-written.
    pub(crate) fn of_whole_files(base: &Base) -> Vec<Self> {
        let mut all = Vec::new();
        for file in base.files() {
            for how in [How::Missing, How::Noise, How::Cut, How::Half] {
                all.push(Self::new(base, how, &file, 0));
            }
            let bytes = fs::metadata(base.dir.join(&file)).unwrap().len();
            all.push(Self::new(base, How::Cut, &file, bytes / 2));
            all.push(Self::new(base, How::Cut, &file, bytes.saturating_sub(1)));
            all.push(Self::new(base, How::Zero, &file, 0));
            all.push(Self::new(base, How::Old, &file, 0));
        }
        all
    }

    /// Returns zeroed sectors of the database, as a disk that lost a write leaves them.
    pub(crate) fn zeroed(base: &Base, count: u64, dice: &mut Dice) -> Vec<Self> {
        let sectors = used(&base.dir.join("db")) / 512 + 1;
        let any = |dice: &mut Dice| Self::new(base, How::Zero, "db", dice.below(sectors) * 512);
        (0..count).map(|_| any(dice)).collect()
    }

    /// Inflicts the damage on a copy of a log.
    pub(crate) fn inflict(&self, earlier: &Path, dir: &Path) {
        let path = dir.join(&self.file);
        if self.how == How::Backup {
            for name in names(earlier) {
                fs::copy(earlier.join(&name), dir.join(&name)).unwrap();
            }
            return;
        }
        let at = usize::try_from(self.at).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        match self.how {
            How::Flip => bytes[at / 8] ^= 1 << (at % 8),
            How::Cut => bytes.truncate(at),
            How::Zero => bytes.iter_mut().skip(at).take(512).for_each(|byte| *byte = 0),
            How::Noise => {
                let mut dice = Dice::new(self.at);
                bytes.fill_with(|| dice.roll().to_le_bytes()[0]);
            }
            How::Doubled => {
                let segment = usize::try_from(SEGMENT).unwrap();
                let copied = bytes[at..(at + segment).min(bytes.len())].to_vec();
                bytes.resize(bytes.len().div_ceil(segment) * segment, 0);
                bytes.extend(copied);
            }
            How::Backup => unreachable!("it is made of several files"),
            How::Missing => return fs::remove_file(&path).unwrap(),
            How::Old => return self.make_old(earlier, dir),
            How::Half => {
                bytes.truncate(bytes.len() / 2);
                let ending = if self.file.starts_with("snap.") { "generating" } else { "new" };
                return fs::write(dir.join(format!("{}.{ending}", self.file)), bytes).unwrap();
            }
        }
        fs::write(&path, bytes).unwrap();
    }

    /// Replaces the file by its earlier version. Snapshots have a number in their name: the old one replaces
    /// the new one.
    fn make_old(&self, earlier: &Path, dir: &Path) {
        fs::remove_file(dir.join(&self.file)).unwrap();
        let kind = self.file.split('.').next().unwrap();
        for name in names(earlier).iter().filter(|name| name.split('.').next() == Some(kind)) {
            fs::copy(earlier.join(name), dir.join(name)).unwrap();
        }
    }
}

/// Returns the written length of a file: the database may have room at its end.
fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}
