//! Conditions for `--where`, drawn at random from the fields of events and tasks and what may stand in them.

/// The comparisons of events.
const OF_EVENTS: &[&str] = &[
    "kind = CallRequested",
    "kind = StateChanged",
    "kind ~ /^Call(Failed|Succeeded)$/",
    "id ~ keep",
    "stream ~ 'task-agent/pay'",
    "version >= 3",
    "position < 12",
    "payload.args",
    "payload.target = pay",
    "payload.to = 'completed'",
    "payload ~ money",
    "causation_id = ''",
    "principal_basis != authenticated",
    "error",
    "at >= 2026-01-01",
];

/// The comparisons of tasks.
const OF_TASKS: &[&str] = &[
    "state = completed",
    "state != failed",
    "events > 5",
    "id ~ /-000[12]/",
    "waiting_for ~ person",
    "waiting_for = null",
    "error",
    "session = s",
    "last_position <= 20",
    "stream ~ agent",
];

/// A generator of numbers, so that each run draws the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % end
    }

    fn condition(&mut self, of: &[&str], depth: usize) -> String {
        match self.below(if depth == 0 { 1 } else { 4 }) {
            0 => of[self.below(of.len())].to_owned(),
            1 => format!("not ({})", self.condition(of, depth - 1)),
            joined => {
                let word = if joined == 2 { "and" } else { "or" };
                let (left, right) = (self.condition(of, depth - 1), self.condition(of, depth - 1));
                format!("({left}) {word} ({right})")
            }
        }
    }
}

/// Returns command lines of this many conditions, each with and without further filters.
pub(crate) fn lines(count: usize) -> Vec<Vec<String>> {
    let mut numbers = Numbers(7);
    let mut lines = Vec::new();
    for at in 0..count {
        let more: &[&str] = match at % 5 {
            0 => &["--limit", "3"],
            1 => &["--kind", "call"],
            2 => &["--not", "tool=pay"],
            _ => &[],
        };
        let events = numbers.condition(OF_EVENTS, 3);
        let words = ["events", "--all", "--json", "--where", &events];
        lines.push(words.iter().chain(more).map(ToString::to_string).collect());
        let tasks = numbers.condition(OF_TASKS, 3);
        lines.push(["ls", "--json", "--where", &tasks].map(str::to_owned).to_vec());
    }
    lines
}
