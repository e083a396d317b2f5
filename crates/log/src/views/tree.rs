//! The layout of a tree whose rows stand below one another: which lines lead to each row, for characters and for pictures.

/// The characters that the lines of a tree are drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeMarks {
    /// A line that goes on to a later row.
    pub through: &'static str,
    /// No line.
    pub none: &'static str,
    /// A row with another one of the same parent below.
    pub branch: &'static str,
    /// The last row of a parent.
    pub last: &'static str,
    /// The mark of rows that lie deeper than is shown.
    pub deeper: &'static str,
}

impl TreeMarks {
    /// Lines in box characters.
    pub const BOX: Self =
        Self { through: "│  ", none: "   ", branch: "├─ ", last: "└─ ", deeper: "⋯  " };

    /// Lines in ASCII.
    pub const ASCII: Self = Self { through: "|  ", none: "   ", branch: "|- ", last: "`- ", deeper: "~  " };
}

/// Returns the lines before each row of a tree, of which each is given by its depth, behind its parent. Rows that lie deeper
/// than `levels` show the levels nearest to them behind a mark.
pub fn tree_lines(depths: &[usize], levels: usize, marks: TreeMarks) -> Vec<String> {
    let levels = levels.max(1);
    let lasts = lasts(depths);
    let (mut lines, mut more) = (Vec::with_capacity(depths.len()), Vec::new());
    for (depth, is_last) in depths.iter().zip(lasts) {
        more.truncate(*depth);
        more.resize(*depth, false);
        let (mut line, mut first) = (String::new(), 1);
        if *depth > levels {
            // In place of the outer levels.
            line.push_str(marks.deeper);
            first = depth - levels.saturating_sub(2);
        }
        // The outermost level has no line: a tree has one root, a forest has rows without a parent.
        for goes_on in more.iter().take(*depth).skip(first) {
            line.push_str(if *goes_on { marks.through } else { marks.none });
        }
        if *depth > 0 {
            line.push_str(if is_last { marks.last } else { marks.branch });
        }
        more.push(!is_last);
        lines.push(line);
    }
    lines
}

/// Returns whether each row is the last one of its parent.
fn lasts(depths: &[usize]) -> Vec<bool> {
    let (mut lasts, mut later) = (vec![true; depths.len()], Vec::new());
    for (at, depth) in depths.iter().enumerate().rev() {
        later.truncate(depth + 1);
        later.resize(depth + 1, false);
        if let (Some(last), Some(has_later)) = (lasts.get_mut(at), later.get_mut(*depth)) {
            *last = !std::mem::replace(has_later, true);
        }
    }
    lasts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_hang_on_their_parents() {
        let lines = tree_lines(&[0, 1, 2, 2, 1, 2, 3], 9, TreeMarks::BOX);
        assert_eq!(lines, ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "   └─ ", "      └─ "]);
        let deep = tree_lines(&(0..6).collect::<Vec<_>>(), 2, TreeMarks::ASCII);
        assert_eq!(deep, ["", "`- ", "   `- ", "~  `- ", "~  `- ", "~  `- "]);
    }

    proptest! {
        #[test]
        fn each_row_has_one_line_of_bounded_width(steps in prop::collection::vec(0_usize..4, 0..60), levels in 1_usize..8) {
            let mut depths: Vec<usize> = Vec::new();
            for step in steps {
                // At most one deeper than the row before.
                let next = depths.last().map_or(0, |last| (last + 1).saturating_sub(step));
                depths.push(next);
            }
            let lines = tree_lines(&depths, levels, TreeMarks::BOX);
            prop_assert_eq!(lines.len(), depths.len());
            for (line, depth) in lines.iter().zip(&depths) {
                prop_assert!(line.chars().count() <= 3 * levels.max(2), "{} at {}", line, depth);
                prop_assert_eq!(line.is_empty(), *depth == 0);
            }
            // A line that goes on reaches a row that ends it.
            for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.ends_with("├─ ")) {
                let later = depths[at + 1..].iter().take_while(|depth| **depth >= depths[at]);
                prop_assert!(later.clone().any(|depth| *depth == depths[at]), "{} at {}", line, at);
            }
        }
    }
}
