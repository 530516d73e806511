//! Test helpers shared by several formats.

use std::vec::Vec;

/// Parses a hex string. Ignores non-hex characters.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two hex digits fit in a byte"))
        .collect()
}
