//! Shows a log to people: pure rows, then tables and JSON. Never imports actors or system.
