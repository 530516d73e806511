//! Encodes protobuf messages: fields with varints, fixed 64-bit values and nested messages.

/// A buffer of encoded protobuf fields.
#[derive(Debug, Default)]
pub(super) struct ProtoBuffer(Vec<u8>);

/// The wire types of protobuf.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

impl ProtoBuffer {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low7(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low7(value));
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// Writes an unsigned integer, a boolean or an enum.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// Writes a signed integer of type `int64`. A negative value takes ten bytes.
    pub(super) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Writes a nested message.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, LENGTH_DELIMITED);
        // The length comes before the message, and it is known only afterwards. It mostly takes one byte.
        let start = self.0.len();
        self.0.push(0);
        write(self);
        let length = self.0.len() - start - 1;
        if length < 0x80 {
            self.0[start] = low7(length as u64);
            return;
        }
        let mut prefix = Self::default();
        prefix.varint(length as u64);
        self.0.splice(start..=start, prefix.0);
    }
}

/// Returns the low seven bits.
fn low7(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_encoding_of_the_protobuf_documentation() {
        let mut buffer = ProtoBuffer::default();
        // The examples of https://protobuf.dev/programming-guides/encoding/.
        buffer.uint(1, 150);
        buffer.text(2, "testing");
        buffer.message(3, |nested| nested.uint(1, 150));
        buffer.int(1, -2);
        buffer.fixed64(4, 0x0102);
        buffer.double(5, 1.0);
        let expected: &[u8] = &[
            0x08, 0x96, 0x01, 0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g', 0x1a, 0x03, 0x08, 0x96,
            0x01, 0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x21, 0x02, 0x01, 0, 0,
            0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f,
        ];
        assert_eq!(buffer.as_bytes(), expected);
    }

    #[test]
    fn a_long_nested_message_has_a_long_length() {
        let mut buffer = ProtoBuffer::default();
        buffer.message(1, |nested| nested.text(2, &"x".repeat(300)));
        assert_eq!(buffer.as_bytes()[..6], [0x0a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        assert_eq!(buffer.as_bytes().len(), 3 + 3 + 300);
    }
}
