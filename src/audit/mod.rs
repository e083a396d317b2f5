//! Reads a log and says what it shows: replay, verify, export. Never imports actors or system.
