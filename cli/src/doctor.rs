//! `doctor`: the condition of the log, with advice.

use taskreel_log::doctor::{examine_with, rebuild_index};

use crate::args::{DoctorArgs, Global};
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::Screen;
use crate::{dirs, print};

pub(crate) fn doctor(args: &DoctorArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let dir = dirs::to_read(global);
    dirs::refuse_nothing(&dir)?;
    let examined =
        if args.rebuild_index { rebuild_index(&dir) } else { examine_with(&dir, &dirs::reading(global)) };
    let found = examined.map_err(|error| Problem::open(&error, &dir))?;
    print::doctor(&found, screen)
}
