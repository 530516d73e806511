//! Writes to stdout and remembers the first write error.

use core::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

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
