//! The equal steps of two runs, as numbers: as many as there can be, where that can be found in a moment.

use std::collections::HashMap;
use std::ops::Range;

/// The largest table of pairs in which the longest common sequence is looked for.
const PAIRS_MAX: usize = 4_000_000;

/// The most steps that only one of two long runs has, for the longest common sequence to be looked for.
const EDITS_MAX: usize = 1_000;

/// Returns the places of equal steps in both runs, in their order.
pub(crate) fn common(first: &[usize], second: &[usize]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    // A worklist, not recursion: the ranges may nest to any depth.
    let mut todo = vec![(0..first.len(), 0..second.len())];
    while let Some(ranges) = todo.pop() {
        let (a, b) = equal_ends(first, second, ranges, &mut places);
        let one = first.get(a.clone()).unwrap_or_default();
        let other = second.get(b.clone()).unwrap_or_default();
        let moved = |(x, y): (usize, usize)| (a.start + x, b.start + y);
        if one.len().saturating_mul(other.len()) <= PAIRS_MAX {
            places.extend(by_table(one, other).into_iter().map(moved));
        } else if let Some(found) = by_edits(one, other) {
            places.extend(found.into_iter().map(moved));
        } else {
            let (mut x, mut y) = (a.start, b.start);
            let anchors: Vec<_> = anchors(one, other).into_iter().map(moved).collect();
            for (next_x, next_y) in &anchors {
                todo.push((x..*next_x, y..*next_y));
                (x, y) = (next_x + 1, next_y + 1);
            }
            if !anchors.is_empty() {
                todo.push((x..a.end, y..b.end));
            }
            places.extend(anchors);
        }
    }
    places.sort_unstable();
    places
}

/// Notes the equal beginnings and ends of two ranges, and returns what lies between them.
fn equal_ends(
    first: &[usize],
    second: &[usize],
    (mut a, mut b): (Range<usize>, Range<usize>),
    places: &mut Vec<(usize, usize)>,
) -> (Range<usize>, Range<usize>) {
    let is_same = |x: usize, y: usize| first.get(x) == second.get(y);
    while !a.is_empty() && !b.is_empty() && is_same(a.start, b.start) {
        places.push((a.start, b.start));
        (a.start, b.start) = (a.start + 1, b.start + 1);
    }
    while !a.is_empty() && !b.is_empty() && is_same(a.end - 1, b.end - 1) {
        (a.end, b.end) = (a.end - 1, b.end - 1);
        places.push((a.end, b.end));
    }
    (a, b)
}

/// Returns the places of the longest common sequence, from a table of all pairs.
fn by_table(first: &[usize], second: &[usize]) -> Vec<(usize, usize)> {
    if first.is_empty() || second.is_empty() {
        return Vec::new();
    }
    let width = second.len() + 1;
    // The length of the longest common sequence of what begins at each pair of places.
    let mut longest = vec![0_u32; (first.len() + 1) * width];
    let at = |a: usize, b: usize| a * width + b;
    let of = |longest: &[u32], a: usize, b: usize| longest.get(at(a, b)).copied().unwrap_or_default();
    for (a, one) in first.iter().enumerate().rev() {
        for (b, other) in second.iter().enumerate().rev() {
            let length = if one == other {
                of(&longest, a + 1, b + 1) + 1
            } else {
                of(&longest, a + 1, b).max(of(&longest, a, b + 1))
            };
            if let Some(place) = longest.get_mut(at(a, b)) {
                *place = length;
            }
        }
    }
    let (mut a, mut b, mut places) = (0, 0, Vec::new());
    while let (Some(one), Some(other)) = (first.get(a), second.get(b)) {
        if one == other {
            places.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if of(&longest, a + 1, b) >= of(&longest, a, b + 1) {
            a += 1;
        } else {
            b += 1;
        }
    }
    places
}

/// Returns the places of the longest common sequence of two runs that differ in few steps (Myers 1986); `None` if they
/// differ in more than [`EDITS_MAX`].
fn by_edits(first: &[usize], second: &[usize]) -> Option<Vec<(usize, usize)>> {
    // For each number of edits, the places that it reaches in the first run: on each diagonal, from the lowest one.
    let mut reached: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=EDITS_MAX {
        let mut row = Vec::with_capacity(edits + 1);
        for diagonal in 0..=edits {
            let (mut a, _) = start_diagonal(reached.last(), edits, diagonal);
            let mut b = row_on_diagonal(a, edits, diagonal);
            while first.get(a).is_some_and(|one| second.get(b) == Some(one)) {
                (a, b) = (a + 1, b + 1);
            }
            row.push(a);
            if (a, b) == (first.len(), second.len()) {
                reached.push(row);
                return Some(way_back(&reached, (a, diagonal)));
            }
        }
        reached.push(row);
    }
    None
}

/// Returns where a diagonal begins after so many edits, and the diagonal that the last edit comes from.
fn start_diagonal(before: Option<&Vec<usize>>, edits: usize, diagonal: usize) -> (usize, usize) {
    let at = |diagonal: usize| before.and_then(|row| row.get(diagonal)).copied().unwrap_or_default();
    let by_second = diagonal == 0 || (diagonal < edits && at(diagonal - 1) < at(diagonal));
    match (edits, by_second) {
        (0, _) => (0, 0),
        (_, true) => (at(diagonal), diagonal),
        (_, false) => (at(diagonal - 1) + 1, diagonal - 1),
    }
}

/// Returns the place in the second run that stands on a diagonal beside one in the first run.
const fn row_on_diagonal(a: usize, edits: usize, diagonal: usize) -> usize {
    (a + edits).saturating_sub(2 * diagonal)
}

/// Returns the equal steps on the way to the end, backwards.
fn way_back(reached: &[Vec<usize>], (mut a, mut diagonal): (usize, usize)) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for edits in (0..reached.len()).rev() {
        let (start, from) =
            start_diagonal(edits.checked_sub(1).and_then(|before| reached.get(before)), edits, diagonal);
        places.extend((start..a).rev().map(|a| (a, row_on_diagonal(a, edits, diagonal))));
        let came_by_first = edits > 0 && from < diagonal;
        a = start.saturating_sub(usize::from(came_by_first));
        diagonal = from;
    }
    places
}

/// Returns the places of steps that stand once in each run, as many as are in the same order in both (patience).
fn anchors(first: &[usize], second: &[usize]) -> Vec<(usize, usize)> {
    let (one, other) = (once(first), once(second));
    let mut both: Vec<(usize, usize)> =
        one.iter().filter_map(|(step, a)| Some((*a, *other.get(step)?))).collect();
    both.sort_unstable();
    // The pairs that end the rising sequences of each length, and the pair before each pair.
    let mut piles: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(both.len());
    let place = |at: usize| both.get(at).map_or(0, |(_, b)| *b);
    for (at, (_, b)) in both.iter().enumerate() {
        let pile = piles.partition_point(|top| place(*top) < *b);
        before.push(pile.checked_sub(1).and_then(|pile| piles.get(pile)).copied());
        match piles.get_mut(pile) {
            Some(top) => *top = at,
            None => piles.push(at),
        }
    }
    let mut next = piles.last().copied();
    let mut found = Vec::new();
    while let Some(at) = next {
        found.extend(both.get(at).copied());
        next = before.get(at).copied().flatten();
    }
    found.reverse();
    found
}

/// Returns the places of the steps that stand once.
fn once(steps: &[usize]) -> HashMap<usize, usize> {
    let mut places: HashMap<usize, Option<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        places.entry(*step).and_modify(|place| *place = None).or_insert(Some(at));
    }
    places.into_iter().filter_map(|(step, place)| Some((step, place?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_the_longest_common_sequence_find_one_of_its_length() {
        let mut seed = 7_u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % most).unwrap()
        };
        for _ in 0..500 {
            let first: Vec<usize> = (0..random(12)).map(|_| random(4)).collect();
            let second: Vec<usize> = (0..random(12)).map(|_| random(4)).collect();
            let mut edits = by_edits(&first, &second).unwrap();
            edits.sort_unstable();
            assert_eq!(edits.len(), by_table(&first, &second).len(), "{first:?} {second:?}");
            assert!(edits.iter().all(|(a, b)| first[*a] == second[*b]), "{first:?} {second:?}: {edits:?}");
            assert!(edits.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1), "{edits:?}");
        }
    }
}
