//! Helpers for splitting a size into parts.

use super::PatternError;
use poseidon_types::Bytes;

/// Returns an error if the size is too small to split. Every part needs at least one byte.
pub(super) fn check_parts(size: Bytes, parts: usize) -> Result<(), PatternError> {
    if size.get() < parts as u64 { Err(PatternError::TooSmall { size, parts }) } else { Ok(()) }
}

/// Splits `size` into parts that differ by at most one byte. Larger parts come first.
pub(super) fn split(size: Bytes, parts: usize) -> impl Iterator<Item = Bytes> {
    let (quotient, remainder) = (size.get() / parts as u64, size.get() % parts as u64);
    (0..parts as u64).map(move |part| Bytes::new(quotient + u64::from(part < remainder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_size() {
        let parts = |size, parts| split(Bytes::new(size), parts).map(Bytes::get).collect::<Vec<_>>();
        assert_eq!(parts(10, 4), [3, 3, 2, 2]);
        assert_eq!(parts(8, 4), [2, 2, 2, 2]);
    }
}
