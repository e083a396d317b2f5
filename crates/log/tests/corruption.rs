//! A damaged log is still complete, or its damage is reported with its place; it never silently loses
//! records, hangs, panics or aborts. Each opening is made by another process, with a deadline.
//!
//! `TASKREEL_FLIPS` (100) sets the number of single bits flipped, `TASKREEL_SEED` repeats the dice of another
//! run.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

#[path = "corruption/base.rs"]
mod base;
#[path = "corruption/damage.rs"]
mod damage;
#[path = "../../../tests/crash/dice.rs"]
mod dice;
#[path = "corruption/opener.rs"]
mod opener;
#[path = "corruption/outcome.rs"]
mod outcome;
mod store_support;

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use base::{Base, NAMES};
use damage::Damage;
use dice::Dice;

/// Entry of the process that opens damaged logs; not a test of its own.
#[test]
fn the_opener_of_damaged_logs() {
    opener::work();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn bases(root: &std::path::Path) -> Vec<Base> {
    NAMES.into_iter().map(|name| Base::make(root, name)).collect()
}

#[test]
fn a_damaged_log_is_intact_or_says_what_is_damaged_and_where() {
    let root = store_support::quick_dir();
    let bases = bases(root.path());
    let seed = number("TASKREEL_SEED").unwrap_or_else(|| std::hash::RandomState::new().hash_one("seed"));
    let flips = number("TASKREEL_FLIPS").unwrap_or(100);
    eprintln!("corruption: TASKREEL_SEED={seed} TASKREEL_FLIPS={flips}");
    let mut dice = Dice::new(seed);
    let mut damages: Vec<Damage> = Vec::new();
    for base in &bases {
        damages.extend(Damage::of_whole_files(base));
        damages.extend(Damage::of_copies(base));
        damages.extend(Damage::cuts(base, flips / 8, &mut dice));
        damages.extend(Damage::zeroed(base, flips / 8, &mut dice));
    }
    for n in 0..flips {
        let base = &bases[usize::try_from(n).unwrap() % bases.len()];
        damages.push(Damage::any_flip(base, &mut dice));
    }
    let outcomes = opener::open_all(root.path(), &bases, &damages);
    let mut classes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (damage, outcome) in damages.iter().zip(&outcomes) {
        let what = format!("{:?} {}", damage.how, damage.file.split('.').next().unwrap());
        let class = outcome.split(' ').next().unwrap().to_owned();
        *classes.entry((what, class)).or_default() += 1;
        if std::env::var_os("TASKREEL_TELL").is_some() {
            eprintln!("{damage}: {outcome}");
        }
    }
    for ((what, class), count) in &classes {
        eprintln!("corruption: {what:<20} {class:<12} {count}");
    }
    let bad: Vec<_> = damages.iter().zip(&outcomes).filter(|(_, outcome)| is_bad(outcome)).collect();
    for (damage, outcome) in bad.iter().take(40) {
        eprintln!("BAD {damage}: {outcome}");
    }
    assert!(bad.is_empty(), "{} of {} damages were not told", bad.len(), damages.len());
}

fn is_bad(outcome: &str) -> bool {
    // A panic of the database says neither what is damaged nor where.
    ["LIED", "HUNG", "DIED"].iter().any(|word| outcome.starts_with(word)) || outcome.contains("panicked")
}
