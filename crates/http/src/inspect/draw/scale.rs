//! The time scale of a drawing: linear where something is carried out, with the long gaps between folded, so that a wait of a night
//! does not squeeze everything else.

#![allow(clippy::cast_precision_loss, reason = "places in a drawing")]

use crate::inspect::draw::rounded;

/// The width of a folded gap.
const FOLD_WIDTH: f64 = 46.0;

/// A gap is folded if it is as long as this many times all that is busy, and a second at least.
const FOLD_FACTOR: i64 = 1;

/// The shortest gap that is folded, in microseconds.
const FOLD_MIN: i64 = 1_000_000;

/// A piece of the scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScalePiece {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) x: f64,
    pub(crate) width: f64,
    pub(crate) is_folded: bool,
}

/// A scale.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scale {
    pub(crate) pieces: Vec<ScalePiece>,
}

impl Scale {
    /// Returns the scale of a span of times, drawn from `x` on; `busy` are the spans in which something is carried out.
    pub(crate) fn new((from, to): (i64, i64), mut busy: Vec<(i64, i64)>, x: f64, width: f64) -> Self {
        let to = to.max(from.saturating_add(1));
        busy.sort_unstable();
        let total: i64 =
            merged(&busy).iter().map(|(from, to)| to.saturating_sub(*from)).fold(0, i64::saturating_add);
        let long = total.saturating_mul(FOLD_FACTOR).max(FOLD_MIN);
        let mut cuts: Vec<(i64, i64, bool)> = Vec::new();
        let mut at = from;
        for (next, end) in merged(&busy).into_iter().chain([(to, to)]) {
            let next = next.clamp(from, to);
            if next.saturating_sub(at) > long {
                cuts.push((at, next, true));
                at = next;
            }
            let end = end.clamp(from, to);
            match cuts.last_mut() {
                Some(last) if !last.2 => last.1 = last.1.max(end),
                _ if end > at => cuts.push((at, end, false)),
                _ => {}
            }
            at = at.max(end);
        }
        Self { pieces: placed(&cuts, x, width) }
    }

    /// Returns the place of a time.
    pub(crate) fn x(&self, at: i64) -> f64 {
        let piece = self.pieces.iter().find(|piece| at <= piece.to).or(self.pieces.last());
        let Some(piece) = piece else { return 0.0 };
        let span = piece.to.saturating_sub(piece.from).max(1) as f64;
        let part = (at.saturating_sub(piece.from) as f64 / span).clamp(0.0, 1.0);
        rounded(piece.x + part * piece.width)
    }

    /// Returns the folded gaps.
    pub(crate) fn folds(&self) -> impl Iterator<Item = &ScalePiece> {
        self.pieces.iter().filter(|piece| piece.is_folded)
    }
}

/// Returns sorted spans as spans that do not overlap.
fn merged(busy: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in busy {
        match merged.last_mut() {
            Some(last) if *from <= last.1 => last.1 = last.1.max(*to),
            _ => merged.push((*from, (*to).max(*from))),
        }
    }
    merged
}

fn placed(cuts: &[(i64, i64, bool)], x: f64, width: f64) -> Vec<ScalePiece> {
    let folds = cuts.iter().filter(|cut| cut.2).count() as f64;
    // Many gaps share half of the width at most.
    let fold = FOLD_WIDTH.min(width / 2.0 / folds.max(1.0));
    let open: i64 =
        cuts.iter().filter(|cut| !cut.2).map(|cut| cut.1.saturating_sub(cut.0)).fold(0, i64::saturating_add);
    let left = width - fold * folds;
    let mut at = x;
    let mut pieces = Vec::with_capacity(cuts.len());
    for (from, to, is_folded) in cuts {
        let width =
            if *is_folded { fold } else { left * (to.saturating_sub(*from) as f64 / open.max(1) as f64) };
        pieces.push(ScalePiece { from: *from, to: *to, x: at, width, is_folded: *is_folded });
        at += width;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gap_is_folded_and_everything_keeps_its_order() {
        let minute = 60_000_000;
        let busy = vec![(0, 400_000), (11 * minute, 11 * minute + 600_000)];
        let scale = Scale::new((0, 11 * minute + 600_000), busy, 100.0, 800.0);
        let folds: Vec<_> = scale.folds().collect();
        assert_eq!(folds.len(), 1);
        assert_eq!((folds[0].from, folds[0].to, folds[0].width), (400_000, 11 * minute, FOLD_WIDTH));
        let places: Vec<f64> = [0, 200_000, 400_000, 5 * minute, 11 * minute, 11 * minute + 600_000]
            .map(|at| scale.x(at))
            .to_vec();
        assert!(places.windows(2).all(|two| two[0] <= two[1]), "{places:?}");
        assert_eq!((places[0], places[5]), (100.0, 900.0));
    }

    #[test]
    fn a_scale_of_nothing_and_of_odd_times_has_places_inside_the_drawing() {
        for (span, busy) in [
            ((0, 0), vec![]),
            ((i64::MIN, i64::MAX), vec![(i64::MIN, i64::MAX)]),
            ((5, 1), vec![(9, 2)]),
            ((0, 10_000_000_000), vec![]),
            ((0, 100), (0..50).map(|at| (at * 2, at * 2 + 1)).collect()),
        ] {
            let scale = Scale::new(span, busy, 0.0, 100.0);
            for at in [i64::MIN, -1, 0, 5, i64::MAX] {
                assert!((0.0..=100.0).contains(&scale.x(at)), "{span:?} {at}: {scale:?}");
            }
        }
    }
}
