//! Writes to stdout and remembers the first write error.

use core::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use terminal_size::{Width, terminal_size_of};

/// The first error that occurred while writing to stdout.
static FIRST_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Prints a line of data. [`finish`] reports any error.
pub(crate) fn print_line(text: Arguments<'_>) {
    keep_error(writeln!(io::stdout(), "{text}"));
}

/// Remembers the first error. A closed pipe is not an error: the reader, such as `head`, has read enough.
pub(crate) fn keep_error(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FIRST_ERROR.set(error);
    }
}

/// Flushes stdout and returns the first write error.
pub(crate) fn finish() -> Result<(), &'static io::Error> {
    keep_error(io::stdout().flush());
    FIRST_ERROR.get().map_or(Ok(()), Err)
}

/// The width of a line if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Returns the width of a line: that of the terminal, or 80 columns if stdout is not a terminal.
pub(crate) fn line_width() -> usize {
    let stdout = io::stdout();
    let width = stdout.is_terminal().then(|| terminal_size_of(&stdout)).flatten();
    width.map_or(DEFAULT_WIDTH, |(Width(width), _)| usize::from(width).max(40))
}

/// Returns whether stdout shows colours: it is a terminal, and the environment does not forbid them.
pub(crate) fn has_colours() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    io::stdout().is_terminal() && allows_colours(&variable("NO_COLOR"), &variable("TERM"))
}

/// Returns whether the values of `NO_COLOR` and `TERM` allow colours (<https://no-color.org>).
fn allows_colours(no_color: &str, term: &str) -> bool {
    no_color.is_empty() && term != "dumb"
}

/// A colour of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
}

impl Colour {
    /// Returns the text in this colour, as a terminal expects it.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_can_forbid_colours() {
        assert!(allows_colours("", "xterm-256color") && allows_colours("", ""));
        assert!(!allows_colours("1", "xterm-256color") && !allows_colours("", "dumb"));
    }

    #[test]
    fn a_colour_ends_with_its_text() {
        assert_eq!(Colour::Green.paint("holds"), "\x1b[32mholds\x1b[0m");
    }
}
