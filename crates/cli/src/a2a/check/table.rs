//! The results of a check, printed as they come or as one document.

use proto_events::json::{JsonObject, JsonText};

use crate::a2a::credentials::redactor;
use crate::a2a::failure::Failure;
use crate::a2a::out::Out;
use crate::a2a::redact::Redactor;
use crate::a2a::settings::Settings;
use crate::print::answer::Answer;
use crate::print::plain::without_control;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    Warn,
    Skip,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Warn => "warn",
            Self::Skip => "skip",
        }
    }
}

/// The results so far.
pub(crate) struct Table<'a> {
    out: &'a mut Out,
    /// Whether each result is a line of JSON.
    is_lines: bool,
    results: Vec<(Verdict, JsonText)>,
    redactor: Redactor,
}

type Noted = Result<(), Failure>;

impl<'a> Table<'a> {
    pub(crate) fn new(settings: &Settings, out: &'a mut Out) -> Self {
        Self { out, is_lines: settings.streams, results: Vec::new(), redactor: redactor(settings) }
    }

    pub(crate) fn pass(&mut self, name: &str, at: &str, detail: impl AsRef<str>) -> Noted {
        self.add(Verdict::Pass, name, at, detail.as_ref())
    }

    pub(crate) fn fail(&mut self, name: &str, at: &str, detail: impl AsRef<str>) -> Noted {
        self.add(Verdict::Fail, name, at, detail.as_ref())
    }

    pub(crate) fn warn(&mut self, name: &str, at: &str, detail: impl AsRef<str>) -> Noted {
        self.add(Verdict::Warn, name, at, detail.as_ref())
    }

    pub(crate) fn skip(&mut self, name: &str, at: &str, detail: impl AsRef<str>) -> Noted {
        self.add(Verdict::Skip, name, at, detail.as_ref())
    }

    /// Notes a check that passes if nothing is at fault.
    pub(crate) fn unless(&mut self, name: &str, at: &str, detail: &str, fault: Option<String>) -> Noted {
        match fault {
            None => self.pass(name, at, detail),
            Some(fault) => self.fail(name, at, fault),
        }
    }

    fn add(&mut self, verdict: Verdict, name: &str, at: &str, detail: &str) -> Noted {
        let (detail, mut row) = (self.redactor.clean(detail), JsonObject::new());
        if self.is_lines {
            row.set("schema", JsonText::string("taskreel.a2a-checked/1"));
        }
        row.set("check", JsonText::string(name));
        row.set("interface", if at.is_empty() { JsonText::null() } else { JsonText::string(at) });
        row.set("result", JsonText::string(&verdict.word().to_ascii_lowercase()));
        row.set("detail", JsonText::string(&detail));
        let row = row.to_text();
        if !self.out.json {
            let line = format!("{}  {name:<22} {at:<14} {}", verdict.word(), without_control(&detail));
            self.out.table_line(line.trim_end())?;
            self.out.flush()?;
        } else if self.is_lines {
            self.out.value(&row)?;
        }
        self.results.push((verdict, row));
        Ok(())
    }

    /// Prints the counts, and returns the answer: no if a check has failed.
    pub(crate) fn finish(self, agent: &str) -> Result<Answer, Failure> {
        let count = |wanted: Verdict| self.results.iter().filter(|(verdict, _)| *verdict == wanted).count();
        let counts = [
            ("passed", count(Verdict::Pass)),
            ("failed", count(Verdict::Fail)),
            ("warned", count(Verdict::Warn)),
            ("skipped", count(Verdict::Skip)),
        ];
        if self.out.json {
            let mut whole = JsonObject::new();
            whole.set("schema", JsonText::string("taskreel.a2a-check/1"));
            whole.set("agent", JsonText::string(agent));
            if !self.is_lines {
                let rows: Vec<&JsonText> = self.results.iter().map(|(_, row)| row).collect();
                whole.set("checks", JsonText::of_model(&rows));
            }
            for (name, number) in counts {
                whole.set(name, JsonText::of_model(&number));
            }
            self.out.value(&whole.to_text())?;
        } else {
            let counts: Vec<String> =
                counts.iter().map(|(name, number)| format!("{number} {name}")).collect();
            self.out.table_line("")?;
            self.out.table_line(&format!("{}: {}", without_control(agent), counts.join(", ")))?;
            self.out.flush()?;
        }
        Ok(if count(Verdict::Fail) == 0 { Answer::Yes } else { Answer::No })
    }
}
