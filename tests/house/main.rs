//! The rules of the source itself: floors, circles, words, and the files that documents name.

mod documents;
mod floors;
mod prose;
