//! The tools with which a model looks again at what a shortened result left out, and the bounds of what they show.

use std::fmt;
use std::sync::Arc;

use taskreel_log::artifacts::{CharacterLimit, VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};

use crate::tools::artifact_reach::ArtifactReach;
use crate::tools::policy::ToolPolicy;
use crate::tools::registry::RegisteredTool;
use crate::tools::tool::ToolContext;
use crate::tools::view_artifact::{ViewData, ViewText, Viewer};

/// The views that are made at once, by both tools together: each reads a whole artifact, which may have tens of megabytes.
const VIEWS_AT_ONCE: usize = 4;

/// The name under which both tools count what is at work.
const VIEWS: &str = "views of artifacts";

/// The tools `view_text_artifact` and `view_data_artifact`, and the limits that belong to them, for
/// [`Builder::artifact_tools`](crate::Builder::artifact_tools).
///
/// ```
/// use taskreel::System;
/// use taskreel::artifact::{ArtifactTools, CharacterLimit};
///
/// let tools = ArtifactTools::new().outputs_over(CharacterLimit::new(20_000)?);
/// let builder = System::builder("./log").artifact_tools(tools);
/// # Ok::<_, taskreel::artifact::ArtifactError>(())
/// ```
#[derive(Clone)]
pub struct ArtifactTools {
    outputs: Option<CharacterLimit>,
    views: CharacterLimit,
    reach: Option<Arc<dyn ArtifactReach>>,
}

impl Default for ArtifactTools {
    fn default() -> Self {
        Self { outputs: Some(CharacterLimit::default()), views: CharacterLimit::default(), reach: None }
    }
}

impl fmt::Debug for ArtifactTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactTools")
            .field("outputs", &self.outputs)
            .field("views", &self.views)
            .finish_non_exhaustive()
    }
}

impl ArtifactTools {
    /// Returns the tools with a2a-utils' limits: results of more than 50,000 characters are minimized in prompts, and a view
    /// shows 50,000 characters at most.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the characters above which the result of a call is minimized in prompts.
    #[must_use]
    pub fn outputs_over(self, characters: CharacterLimit) -> Self {
        Self { outputs: Some(characters), ..self }
    }

    /// Minimizes nothing in prompts: the tools are there, and all results are sent whole.
    #[must_use]
    pub fn whole_outputs(self) -> Self {
        Self { outputs: None, ..self }
    }

    /// Sets the most characters that one view shows.
    #[must_use]
    pub fn views_of(self, characters: CharacterLimit) -> Self {
        Self { views: characters, ..self }
    }

    /// Sets a rule that lets calls see more than their own session, task and child tasks.
    #[must_use]
    pub fn reach(self, rule: impl ArtifactReach) -> Self {
        Self { reach: Some(Arc::new(rule)), ..self }
    }

    /// Returns the characters above which results are minimized.
    pub(crate) fn limit_of_outputs(&self) -> Option<CharacterLimit> {
        self.outputs
    }

    /// Returns the two tools.
    ///
    /// # Errors
    /// A text that names the tool, if it cannot be registered.
    pub(crate) fn registered(self) -> Result<[RegisteredTool; 2], String> {
        let policy = || {
            let policy = ToolPolicy::read_only().parallel().repeatable();
            policy.concurrency_of(VIEWS, VIEWS_AT_ONCE).declared_by("taskreel")
        };
        let text = Viewer { limit: self.views, reach: self.reach.clone() };
        let data = Viewer { limit: self.views, reach: self.reach };
        let text_tool = move |cx: ToolContext, asked: ViewText| text.text(&cx, &asked);
        let data_tool = move |cx: ToolContext, asked: ViewData| data.data(&cx, &asked);
        Ok([
            RegisteredTool::new(VIEW_TEXT_ARTIFACT, ABOUT_TEXT, policy(), text_tool)?,
            RegisteredTool::new(VIEW_DATA_ARTIFACT, ABOUT_DATA, policy(), data_tool)?,
        ])
    }
}

/// Whether a tool is one of those that view artifacts: what it returns is not shortened again.
pub(crate) fn is_view(tool: &str) -> bool {
    matches!(tool, VIEW_TEXT_ARTIFACT | VIEW_DATA_ARTIFACT)
}

const ABOUT_TEXT: &str = "Shows a text artifact or the text result of a call: all of it, a range of lines, or a range of \
characters. Use it to see what a shortened result leaves out; its tip names task_id and artifact_id.";

const ABOUT_DATA: &str = "Shows a data artifact or the data result of a call: a field by its path, and rows and columns of a \
list. Use it to see what a summarized result leaves out; its tip names task_id and artifact_id.";
