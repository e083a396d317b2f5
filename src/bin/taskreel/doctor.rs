//! `doctor`: how is the log, and what is to be done about it.

use taskreel::inspect::cli::{self, Problem, Screen, Verdict};
use taskreel::inspect::doctor::examine;

use crate::args::Global;
use crate::dirs;

pub(crate) fn doctor(global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let dir = dirs::to_read(global);
    dirs::refuse_nothing(&dir)?;
    let found = examine(&dir).map_err(|error| Problem::open(&error, &dir))?;
    cli::doctor(&found, screen)
}
