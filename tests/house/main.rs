//! The rules of the source itself: floors, circles, and words.

mod floors;
mod prose;
