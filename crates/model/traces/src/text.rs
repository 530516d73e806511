//! Bounded lines, their words, and exact numbers.

use crate::error::{NumberProblem, TraceError, TraceErrorKind};
use core::num::NonZeroU32;
use std::io::{self, BufRead, Read, Write};

/// The maximum length of a line in bytes.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The number of characters of a file that an error message quotes.
const MAX_QUOTE: usize = 40;

/// A reader that returns the lines with content. It reuses one buffer for all lines.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

/// A line without its comment and without white space at its ends.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The line number, starting at one.
    pub(crate) number: u64,
    /// The content, which is not empty.
    pub(crate) text: &'a [u8],
}

impl<R: BufRead> Lines<R> {
    /// Creates a reader of lines.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// Returns the next line with content, or `None` at the end of the file. `#` starts a comment.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        Ok(if self.advance()? { Some(self.current()) } else { None })
    }

    /// Returns the next line with content. If the file has ended, returns an error that names the expected content.
    pub(crate) fn expect_line(&mut self, expected: &'static str) -> Result<Line<'_>, TraceError> {
        if self.advance()? {
            return Ok(self.current());
        }
        Err(TraceError { line: self.number + 1, kind: TraceErrorKind::FileEnds { expected } })
    }

    /// Reads lines until one has content. Returns false at the end of the file.
    fn advance(&mut self) -> Result<bool, TraceError> {
        while self.fill_buffer()? {
            if !self.buffer.trim_ascii_start().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the line in the buffer.
    fn current(&self) -> Line<'_> {
        Line { number: self.number, text: self.buffer.trim_ascii_start() }
    }

    /// Returns the number of the last line read, or one if the file is empty.
    pub(crate) fn last_number(&self) -> u64 {
        self.number.max(1)
    }

    /// Returns an error at the last line read.
    pub(crate) fn error(&self, kind: TraceErrorKind) -> TraceError {
        TraceError { line: self.last_number(), kind }
    }

    /// Reads a line into the buffer and removes its comment and its trailing white space. Returns false at the end of
    /// the file.
    fn fill_buffer(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1);
        let result = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        if let Ok(0) = result {
            return Ok(false);
        }
        self.number += 1;
        result.map_err(|error| self.error(TraceErrorKind::Io(error.kind())))?;
        if self.buffer.len() > MAX_LINE && self.buffer.last() != Some(&b'\n') {
            return Err(self.error(TraceErrorKind::LineTooLong { limit: MAX_LINE }));
        }
        let end = self.buffer.iter().position(|byte| *byte == b'#').unwrap_or(self.buffer.len());
        let end = self.buffer[..end].trim_ascii_end().len();
        self.buffer.truncate(end);
        Ok(true)
    }
}

impl<'a> Line<'a> {
    /// Returns an error at this line.
    pub(crate) const fn error(self, kind: TraceErrorKind) -> TraceError {
        TraceError { line: self.number, kind }
    }

    /// Returns the words, which are separated by white space.
    pub(crate) fn words(self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
    }

    /// Returns the words of a line that must have exactly `N` words.
    pub(crate) fn fixed_words<const N: usize>(
        self,
        expected: &'static str,
    ) -> Result<[&'a [u8]; N], TraceError> {
        let mut words = self.words();
        let mut fixed: [&[u8]; N] = [&[]; N];
        for slot in &mut fixed {
            *slot = words.next().ok_or_else(|| self.error(TraceErrorKind::Syntax { expected }))?;
        }
        match words.next() {
            None => Ok(fixed),
            Some(_) => Err(self.error(TraceErrorKind::Syntax { expected })),
        }
    }

    /// Parses an integer below 2^64.
    pub(crate) fn parse_u64(self, field: &'static str, word: &[u8]) -> Result<u64, TraceError> {
        parse_integer(word).map_err(|problem| self.number_error(field, word, problem))
    }

    /// Parses an integer below 2^32.
    pub(crate) fn parse_u32(self, field: &'static str, word: &[u8]) -> Result<u32, TraceError> {
        let number = self.parse_u64(field, word)?;
        u32::try_from(number).map_err(|_| self.number_error(field, word, NumberProblem::TooLarge))
    }

    /// Parses an integer from 1 to 2^32 - 1.
    pub(crate) fn parse_positive(self, field: &'static str, word: &[u8]) -> Result<NonZeroU32, TraceError> {
        let number = self.parse_u32(field, word)?;
        NonZeroU32::new(number).ok_or_else(|| self.number_error(field, word, NumberProblem::Zero))
    }

    /// Parses a decimal number and multiplies it by 10^`decimals`. The product must be an integer.
    pub(crate) fn parse_decimal(
        self,
        field: &'static str,
        word: &[u8],
        decimals: u32,
    ) -> Result<u64, TraceError> {
        parse_decimal(word, decimals).map_err(|problem| self.number_error(field, word, problem))
    }

    /// Returns an error about a number.
    #[cold]
    pub(crate) fn number_error(self, field: &'static str, word: &[u8], problem: NumberProblem) -> TraceError {
        self.error(TraceErrorKind::Number { field, text: quote(word), problem })
    }

    /// Returns an error about an unknown word.
    #[cold]
    pub(crate) fn unknown_word(self, word: &[u8], expected: &'static str) -> TraceError {
        self.error(TraceErrorKind::UnknownWord { text: quote(word), expected })
    }
}

/// Parses an integer that consists only of digits.
fn parse_integer(word: &[u8]) -> Result<u64, NumberProblem> {
    if word.is_empty() {
        return Err(NumberProblem::NotANumber);
    }
    word.iter().try_fold(0, |value, byte| append_digit(value, *byte))
}

/// Parses a decimal number times 10^`decimals`. `decimals` is at most 19.
fn parse_decimal(word: &[u8], decimals: u32) -> Result<u64, NumberProblem> {
    let point = word.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&word[..point], &word[point + 1..]),
        None => (word, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(NumberProblem::NotANumber);
    }
    let mut value = if whole.is_empty() { 0 } else { parse_integer(whole)? };
    let mut missing = decimals;
    for byte in fraction {
        if missing == 0 {
            match byte {
                b'0' => continue,
                b'1'..=b'9' => return Err(NumberProblem::Inexact),
                _ => return Err(NumberProblem::NotANumber),
            }
        }
        value = append_digit(value, *byte)?;
        missing -= 1;
    }
    value.checked_mul(10u64.pow(missing)).ok_or(NumberProblem::TooLarge)
}

/// Appends a decimal digit to a number.
fn append_digit(value: u64, byte: u8) -> Result<u64, NumberProblem> {
    let digit = byte.wrapping_sub(b'0');
    if digit > 9 {
        return Err(NumberProblem::NotANumber);
    }
    let shifted = value.checked_mul(10).and_then(|shifted| shifted.checked_add(u64::from(digit)));
    shifted.ok_or(NumberProblem::TooLarge)
}

/// Writes `value` / 10^`decimals` as a decimal number without trailing zeros. `decimals` is at most 19.
pub(crate) fn write_decimal(output: &mut impl Write, value: u64, decimals: u32) -> io::Result<()> {
    let scale = 10u64.pow(decimals);
    write!(output, "{}", value / scale)?;
    let (mut fraction, mut width) = (value % scale, decimals);
    if fraction == 0 {
        return Ok(());
    }
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        width -= 1;
    }
    let width = usize::try_from(width).unwrap_or(0);
    write!(output, ".{fraction:0width$}")
}

/// Returns the beginning of a word for an error message.
pub(crate) fn quote(word: &[u8]) -> String {
    // A character has at most four bytes.
    let start = &word[..word.len().min(4 * MAX_QUOTE)];
    String::from_utf8_lossy(start).chars().take(MAX_QUOTE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        // (text, decimals, value)
        let table = [
            ("2", 12, Ok(2_000_000_000_000)),
            ("2.000000000001", 12, Ok(2_000_000_000_001)),
            ("0.1", 12, Ok(100_000_000_000)),
            (".5", 3, Ok(500)),
            ("5.", 0, Ok(5)),
            ("1.5000", 1, Ok(15)),
            ("1.5", 0, Err(NumberProblem::Inexact)),
            ("1e-6", 12, Err(NumberProblem::NotANumber)),
            ("-1", 0, Err(NumberProblem::NotANumber)),
            ("1.2.3", 3, Err(NumberProblem::NotANumber)),
            (".", 3, Err(NumberProblem::NotANumber)),
            ("", 3, Err(NumberProblem::NotANumber)),
            ("18446744073709551615", 0, Ok(u64::MAX)),
            ("18446744073709551616", 0, Err(NumberProblem::TooLarge)),
            ("18446745", 12, Err(NumberProblem::TooLarge)),
        ];
        for (text, decimals, value) in table {
            assert_eq!(parse_decimal(text.as_bytes(), decimals), value, "{text}");
        }
    }

    #[test]
    fn lines_lose_comments_and_blank_lines() {
        let mut lines = Lines::new(&b"# head\r\n\n  a b # c\r\n\t\nlast"[..]);
        let mut next = || {
            let line = lines.next_line().expect("the input is readable")?;
            Some((line.number, String::from_utf8_lossy(line.text).into_owned()))
        };
        assert_eq!(next(), Some((3, "a b".into())));
        assert_eq!(next(), Some((5, "last".into())));
        assert_eq!(next(), None);
    }

    #[test]
    fn line_length_is_bounded() {
        let longest = vec![b'1'; MAX_LINE];
        let mut lines = Lines::new(&longest[..]);
        assert_eq!(lines.next_line().expect("the line fits").map(|line| line.text.len()), Some(MAX_LINE));
        let longest = [&longest[..], b"\nx"].concat();
        let mut lines = Lines::new(&longest[..]);
        assert_eq!(lines.next_line().expect("the line fits").map(|line| line.text.len()), Some(MAX_LINE));
        let too_long = vec![b'1'; MAX_LINE + 1];
        let error = Lines::new(&too_long[..]).next_line().err();
        assert_eq!(error.map(|error| error.kind), Some(TraceErrorKind::LineTooLong { limit: MAX_LINE }));
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(quote(b"abc"), "abc");
        assert_eq!(quote(&[0xff; 1000]).chars().count(), MAX_QUOTE);
    }

    proptest! {
        #[test]
        fn written_decimals_parse_to_the_same_value(value: u64, decimals in 0u32..=12) {
            let mut text = Vec::new();
            write_decimal(&mut text, value, decimals).expect("memory is writable");
            prop_assert_eq!(parse_decimal(&text, decimals), Ok(value));
        }
    }
}
