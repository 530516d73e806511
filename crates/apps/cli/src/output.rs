//! What goes to stdout, and whether it got there.

use core::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

/// The first write to stdout that failed.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line of data. A failure is kept for [`finish`].
pub(crate) fn line(text: Arguments<'_>) {
    keep(writeln!(io::stdout(), "{text}"));
}

/// Keeps the first failure. A reader that has seen enough and gone, such as `head`, is none.
pub(crate) fn keep(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FAILED.set(error);
    }
}

/// Writes what still waits, and says whether all of the data got out.
pub(crate) fn finish() -> Result<(), &'static io::Error> {
    keep(io::stdout().flush());
    FAILED.get().map_or(Ok(()), Err)
}
