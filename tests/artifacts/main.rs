//! Artifacts, long texts and kept files: what of them is in the log, beside it, and before a model.

#[path = "../artifact_tool_support"]
mod artifact_tool_support {
    pub(crate) mod calls;
    pub(crate) mod model;
    pub(crate) mod texts;
}
#[path = "../approvals_support/mod.rs"]
mod approvals_support;
#[path = "../prompt_support/mod.rs"]
mod prompt_support;

mod artifact_reach;
mod artifact_tools;
mod artifact_view_bounds;
#[cfg(unix)]
mod file_stores;
mod kept_files;
mod kept_files_bounds;
mod kept_files_content;
mod kept_files_support;
mod large_texts;
mod outside_texts;
