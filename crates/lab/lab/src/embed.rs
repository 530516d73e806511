//! Data inside an HTML page: compressed with raw DEFLATE and written as Base64. A page decodes it with
//! `DecompressionStream("deflate-raw")`.

/// The best compression. A page is written once and read often.
const COMPRESSION_LEVEL: u8 = 9;

/// Compresses bytes, and returns them as Base64.
pub(crate) fn compress_base64(bytes: &[u8]) -> String {
    base64(&miniz_oxide::deflate::compress_to_vec(bytes, COMPRESSION_LEVEL))
}

/// Returns bytes as Base64 with padding (RFC 4648 section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().chain([&0; 2]).take(3).fold(0, |group, byte| group << 8 | usize::from(*byte));
        for position in 0..4 {
            let sextet = group >> (18 - 6 * position) & 63;
            text.push(if position <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648 section 10, and one with both special digits.
    #[test]
    fn base64_matches_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
