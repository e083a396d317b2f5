//! `doctor`: the condition of the log, with advice.

use std::path::Path;

use taskreel_log::api::OpenError;
#[cfg(unix)]
use taskreel_log::doctor::examine_through;
use taskreel_log::doctor::{Examination, examine_with, rebuild_index};
#[cfg(unix)]
use taskreel_log::socket::SteadyReader;

use crate::args::{DoctorArgs, Global};
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::Screen;
use crate::{dirs, print};

/// Examines the log through the socket of the program that has it open, else in a private copy.
fn examine(dir: &Path, global: &Global) -> Result<Examination, OpenError> {
    #[cfg(unix)]
    if let Some(socket) = dirs::socket(dir) {
        return examine_through(dir, &SteadyReader::new(socket, dirs::reading(global)));
    }
    examine_with(dir, &dirs::reading(global))
}

pub(crate) fn doctor(args: &DoctorArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let dir = dirs::to_read(global);
    dirs::refuse_nothing(&dir)?;
    let examined = if args.rebuild_index { rebuild_index(&dir) } else { examine(&dir, global) };
    let found = examined.map_err(|error| Problem::open(&error, &dir))?;
    print::doctor(&found, screen)
}
