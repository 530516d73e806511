//! A text of bounded length, for messages without a heap.

use core::fmt::{self, Arguments, Write};

/// A text of at most `N` bytes. A longer text is cut at a character boundary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<const N: usize> {
    bytes: [u8; N],
    len: usize,
    /// Whether a part of the text is missing. Nothing is appended after a missing part.
    is_cut: bool,
}

impl<const N: usize> Message<N> {
    /// The empty text.
    pub(crate) const EMPTY: Self = Self { bytes: [0; N], len: 0, is_cut: false };

    /// Formats a text.
    pub(crate) fn format(arguments: Arguments<'_>) -> Self {
        let mut message = Self::EMPTY;
        // Writing to a message never fails. A `Display` implementation that fails leaves a shorter text.
        let _ = message.write_fmt(arguments);
        message
    }

    /// Appends ASCII or UTF-8 text without `core::fmt`, for firmware.
    pub(crate) fn push(&mut self, text: &[u8]) {
        if self.is_cut {
            return;
        }
        let space = N - self.len.min(N);
        let mut end = text.len();
        if end > space {
            self.is_cut = true;
            end = space;
            // Continuation bytes of UTF-8 have the form 10xxxxxx.
            while end > 0 && text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
        }
        for (slot, byte) in self.bytes.iter_mut().skip(self.len).zip(text.iter().take(end)) {
            *slot = *byte;
        }
        self.len += end;
    }

    /// Returns the text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl<const N: usize> Write for Message<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character() {
        let message = Message::<5>::format(format_args!("ab{}", "cdé"));
        assert_eq!(message.as_bytes(), b"abcd");
        let mut message = Message::<4>::EMPTY;
        message.push(b"abc");
        message.push(b"de");
        message.push(b"f");
        assert_eq!(message.as_bytes(), b"abcd");
        message.push("é".as_bytes());
        assert_eq!(message.as_bytes(), b"abcd");
        assert_eq!(Message::<0>::format(format_args!("a")).as_bytes(), b"");
    }
}
