//! A size in parts.

use super::PatternError;
use poseidon_types::Bytes;

/// Refuses to make parts without a byte.
pub(super) fn check_parts(size: Bytes, parts: usize) -> Result<(), PatternError> {
    if size.get() < parts as u64 { Err(PatternError::TooSmall { size, parts }) } else { Ok(()) }
}

/// So many parts that differ by at most a byte and are `size` together; larger ones first.
pub(super) fn split(size: Bytes, parts: usize) -> impl Iterator<Item = Bytes> {
    let (share, rest) = (size.get() / parts as u64, size.get() % parts as u64);
    (0..parts as u64).map(move |part| Bytes::new(share + u64::from(part < rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let parts = |size, parts| split(Bytes::new(size), parts).map(Bytes::get).collect::<Vec<_>>();
        assert_eq!(parts(10, 4), [3, 3, 2, 2]);
        assert_eq!(parts(8, 4), [2, 2, 2, 2]);
    }
}
