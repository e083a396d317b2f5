//! `doctor`: the condition of the log, with advice.

use taskreel_log::doctor::examine;

use crate::args::Global;
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::Screen;
use crate::{dirs, print};

pub(crate) fn doctor(global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let dir = dirs::to_read(global);
    dirs::refuse_nothing(&dir)?;
    let found = examine(&dir).map_err(|error| Problem::open(&error, &dir))?;
    print::doctor(&found, screen)
}
