//! A parser of strace's lines. A call that could change a file and is not understood causes a panic; it is
//! never skipped.

use std::collections::HashMap;
use std::path::Path;

use super::{Call, Deed};

/// The known offsets of descriptors in their files.
#[derive(Default)]
struct Places {
    at: HashMap<i64, u64>,
}

/// A call as written in the trace.
struct Raw<'a> {
    began: usize,
    ended: usize,
    name: &'a str,
    args: Vec<Arg>,
    answer: i64,
    /// The file of a returned descriptor.
    opened: Option<String>,
}

/// An argument: its own text, the path of a descriptor, the bytes of a string.
#[derive(Debug, Default)]
struct Arg {
    text: String,
    path: Option<String>,
    bytes: Option<Vec<u8>>,
}

/// Reads a whole trace.
pub(super) fn read(trace: &[u8], dir: &Path) -> Vec<Call> {
    let dir = dir.canonicalize().unwrap();
    let dir = dir.to_str().unwrap();
    let trace = std::str::from_utf8(trace).unwrap();
    let mut places = Places::default();
    let mut calls: Vec<Call> =
        raw_calls(trace).iter().filter_map(|raw| understood(raw, dir, &mut places)).collect();
    calls.sort_by_key(|call| call.ended);
    calls
}

/// Joins the halves of calls between which others were traced.
fn raw_calls(trace: &str) -> Vec<Raw<'_>> {
    let mut halves: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        let (thread, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(half) = rest.strip_suffix(" <unfinished ...>") {
            halves.insert(thread, (number, half));
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (began, half) = halves.remove(thread).unwrap();
            let (_, tail) = resumed.split_once(" resumed>").unwrap();
            calls.extend(raw(began, number, half, tail));
        } else {
            calls.extend(raw(number, number, rest, ""));
        }
    }
    calls
}

/// Parses one call; `None` if it failed, unless it is a sync.
fn raw<'a>(began: usize, ended: usize, head: &'a str, tail: &str) -> Option<Raw<'a>> {
    let (name, from) = head.split_once('(').unwrap();
    let whole = format!("{from}{tail}");
    let (args, rest) = arguments(&whole);
    let answer = rest.trim_start().strip_prefix('=').unwrap_or_else(|| panic!("no answer: {name}"));
    let answer = answer.trim_start();
    let number = answer.split([' ', '<']).next().unwrap();
    let number: i64 = number.parse().ok()?;
    let opened = answer.split_once('<').map(|(_, path)| path.trim_end_matches('>').to_owned());
    let told = number >= 0 || matches!(name, "fsync" | "fdatasync");
    told.then_some(Raw { began, ended, name, args, answer: number, opened })
}

/// Returns the arguments up to the closing bracket, and the text after it.
fn arguments(text: &str) -> (Vec<Arg>, &str) {
    let bytes = text.as_bytes();
    let (mut args, mut arg, mut at, mut depth) = (Vec::new(), Arg::default(), 0, 0);
    loop {
        match bytes[at] {
            b'"' => {
                let (string, next) = string(bytes, at + 1);
                arg.bytes = Some(string);
                at = next;
                continue;
            }
            b'<' => {
                let end = at + text[at..].find('>').unwrap();
                arg.path = Some(text[at + 1..end].to_owned());
                at = end;
                if text[at + 1..].starts_with("(deleted)") {
                    at += "(deleted)".len();
                }
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b')' if depth == 0 => {
                args.push(arg);
                return (args, &text[at + 1..]);
            }
            b',' if depth == 0 => args.push(std::mem::take(&mut arg)),
            b' ' => {}
            other => arg.text.push(char::from(other)),
        }
        at += 1;
    }
}

/// Parses a string in strace's notation, and returns where it ends.
fn string(bytes: &[u8], mut at: usize) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    loop {
        match bytes[at] {
            b'"' => break,
            b'\\' => {
                at += 1;
                let octal =
                    bytes[at..].iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                if octal > 0 {
                    let digits = &bytes[at..at + octal];
                    let value = digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
                    out.push(u8::try_from(value).unwrap());
                    at += octal;
                    continue;
                }
                out.push(match bytes[at] {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 11,
                    b'f' => 12,
                    same @ (b'"' | b'\\') => same,
                    other => panic!("an escape that is not known: {}", char::from(other)),
                });
            }
            _ => {
                let plain = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap();
                out.extend_from_slice(&bytes[at..at + plain]);
                at += plain;
                continue;
            }
        }
        at += 1;
    }
    assert!(!bytes[at + 1..].starts_with(b"..."), "strace has cut a string short");
    (out, at + 1)
}

/// Returns the call's effect on the directory, or the line that it printed.
fn understood(raw: &Raw<'_>, dir: &str, places: &mut Places) -> Option<Call> {
    let deed = deed(raw, dir, places)?;
    Some(Call { began: raw.began, ended: raw.ended, deed })
}

fn deed(raw: &Raw<'_>, dir: &str, places: &mut Places) -> Option<Deed> {
    let inside = |path: &str| {
        let rest = path.strip_prefix(dir)?;
        if rest.is_empty() { Some(".".to_owned()) } else { rest.strip_prefix('/').map(str::to_owned) }
    };
    let arg = |at: usize| raw.args.get(at);
    let behind = |at: usize| arg(at)?.path.as_deref().and_then(inside);
    let named = |at: usize| inside(std::str::from_utf8(arg(at)?.bytes.as_ref()?).unwrap());
    // A name that is relative to the folder of the argument before it.
    let below = |at: usize| {
        let name = std::str::from_utf8(arg(at)?.bytes.as_ref()?).unwrap();
        match arg(at - 1)?.path.as_deref() {
            Some(folder) if !name.starts_with('/') => inside(&format!("{folder}/{name}")),
            _ => inside(name),
        }
    };
    let number = |at: usize| raw.args[at].text.parse::<u64>().unwrap();
    let descriptor = |at: usize| raw.args[at].text.parse::<i64>().unwrap();
    match raw.name {
        "openat" => {
            let file = raw.opened.as_deref().and_then(inside)?;
            let flags = &raw.args[2].text;
            places.at.insert(raw.answer, 0);
            assert!(!flags.contains("O_APPEND"), "{file} is opened for appending, which is not modelled");
            let cut = flags.contains("O_TRUNC");
            (flags.contains("O_CREAT") || cut).then_some(Deed::Made { file, cut })
        }
        "write" if descriptor(0) == 1 => {
            let bytes = raw.args[1].bytes.clone().unwrap();
            Some(Deed::Said(String::from_utf8_lossy(&bytes).trim().to_owned()))
        }
        "write" => {
            let file = behind(0)?;
            let at = places.at.entry(descriptor(0)).or_default();
            let from = *at;
            *at += u64::try_from(raw.answer).unwrap();
            Some(wrote(raw, file, from))
        }
        "lseek" => {
            places.at.insert(descriptor(0), u64::try_from(raw.answer).unwrap());
            None
        }
        "pwrite64" => Some(wrote(raw, behind(0)?, number(3))),
        "ftruncate" => Some(Deed::Cut { file: behind(0)?, bytes: number(1) }),
        "rename" => Some(Deed::Renamed { from: named(0)?, to: named(1)? }),
        "renameat" | "renameat2" => Some(Deed::Renamed { from: below(1)?, to: below(3)? }),
        "link" => Some(Deed::Linked { from: named(0)?, to: named(1)? }),
        "linkat" => Some(Deed::Linked { from: below(1)?, to: below(3)? }),
        "unlink" | "rmdir" => Some(Deed::Removed { name: named(0)? }),
        "unlinkat" => Some(Deed::Removed { name: below(1)? }),
        "mkdir" => Some(Deed::MadeDir { name: named(0)? }),
        "mkdirat" => Some(Deed::MadeDir { name: below(1)? }),
        "fsync" | "fdatasync" if raw.answer < 0 => Some(Deed::SyncFailed { name: behind(0)? }),
        "fsync" | "fdatasync" => Some(Deed::Synced { name: behind(0)? }),
        // They promise nothing: neither the device's cache nor the file's length is written.
        "sync_file_range" | "close" => None,
        other => {
            let touched = raw.args.iter().any(|arg| arg.path.as_deref().and_then(inside).is_some());
            assert!(!touched, "`{other}` on the directory is not understood");
            None
        }
    }
}

fn wrote(raw: &Raw<'_>, file: String, at: u64) -> Deed {
    let mut bytes = raw.args[1].bytes.clone().unwrap();
    // Bytes not written are written by the next call.
    bytes.truncate(usize::try_from(raw.answer).unwrap());
    Deed::Wrote { file, at, bytes }
}
