//! Writes the blocks of a pcapng file, in little-endian order (draft-ietf-opsawg-pcapng).

use poseidon_types::{BitRate, Nanos};
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION_TEXT: u16 = 3;
const INTERFACE_SPEED: u16 = 8;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// Timestamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// An interface.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) speed: BitRate,
    pub(super) snap_length: u32,
}

/// The direction of a packet at its interface, as in the flags of an enhanced packet block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// A packet of an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedFrame<'a> {
    pub(super) interface: u32,
    pub(super) time: Nanos,
    pub(super) direction: Direction,
    /// The stored bytes.
    pub(super) bytes: &'a [u8],
    /// The size of the whole frame.
    pub(super) original_length: u32,
    /// Empty for no comment.
    pub(super) comment: &'a str,
}

/// Writes blocks and counts their bytes.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    output: W,
    block: Vec<u8>,
    pub(super) bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Writes the section header.
    pub(super) fn new(output: W, application: &str) -> io::Result<Self> {
        let mut writer = Self { output, block: Vec::new(), bytes: 0 };
        writer.write_block(SECTION_HEADER, |block| {
            put_u32(block, BYTE_ORDER_MAGIC);
            // Version 1.0.
            put_u16(block, 1);
            put_u16(block, 0);
            // The length of the section is not known.
            block.extend_from_slice(&(-1_i64).to_le_bytes());
            put_option(block, SECTION_APPLICATION, application.as_bytes());
            put_option(block, OPTION_END, &[]);
        })?;
        Ok(writer)
    }

    /// Adds an interface. Interfaces are numbered in the order of these calls.
    pub(super) fn add_interface(&mut self, interface: &Interface) -> io::Result<()> {
        self.write_block(INTERFACE_DESCRIPTION, |block| {
            put_u16(block, LINKTYPE_ETHERNET);
            put_u16(block, 0);
            put_u32(block, interface.snap_length);
            put_option(block, INTERFACE_NAME, interface.name.as_bytes());
            put_option(block, INTERFACE_DESCRIPTION_TEXT, interface.description.as_bytes());
            put_option(block, INTERFACE_SPEED, &interface.speed.get().to_le_bytes());
            put_option(block, INTERFACE_TIME_RESOLUTION, &[NANOSECONDS]);
            put_option(block, OPTION_END, &[]);
        })
    }

    pub(super) fn add_frame(&mut self, frame: &CapturedFrame<'_>) -> io::Result<()> {
        self.write_block(ENHANCED_PACKET, |block| {
            put_u32(block, frame.interface);
            let time = frame.time.get();
            put_u32(block, u32::try_from(time >> 32).unwrap_or(u32::MAX));
            put_u32(block, u32::try_from(time & u64::from(u32::MAX)).unwrap_or(0));
            put_u32(block, u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX));
            put_u32(block, frame.original_length);
            put_padded(block, frame.bytes);
            put_option(block, PACKET_FLAGS, &(frame.direction as u32).to_le_bytes());
            if !frame.comment.is_empty() {
                put_option(block, OPTION_COMMENT, frame.comment.as_bytes());
            }
            put_option(block, OPTION_END, &[]);
        })
    }

    fn write_block(&mut self, kind: u32, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.block.clear();
        put_u32(&mut self.block, kind);
        put_u32(&mut self.block, 0);
        write(&mut self.block);
        let length = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        put_u32(&mut self.block, length);
        self.output.write_all(&self.block)?;
        self.bytes += self.block.len() as u64;
        Ok(())
    }

    /// Flushes the file and returns its size.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.output.flush()?;
        Ok(self.bytes)
    }
}

fn put_u16(block: &mut Vec<u8>, value: u16) {
    block.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(block: &mut Vec<u8>, value: u32) {
    block.extend_from_slice(&value.to_le_bytes());
}

/// Appends bytes, padded with zeros to a multiple of four.
fn put_padded(block: &mut Vec<u8>, bytes: &[u8]) {
    block.extend_from_slice(bytes);
    block.resize(block.len().next_multiple_of(4), 0);
}

fn put_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    put_u16(block, code);
    put_u16(block, u16::try_from(value.len()).unwrap_or(u16::MAX));
    put_padded(block, &value[..value.len().min(usize::from(u16::MAX))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_these_bytes() {
        let mut file = Vec::new();
        let mut writer = BlockWriter::new(&mut file, "ab").expect("a vector is writable");
        let interface = Interface {
            name: "h0".to_owned(),
            description: "x".to_owned(),
            speed: BitRate::from_bps(5),
            snap_length: 128,
        };
        writer.add_interface(&interface).expect("a vector is writable");
        let frame = CapturedFrame {
            interface: 0,
            time: Nanos::new((1 << 32) + 2),
            direction: Direction::Outbound,
            bytes: &[9, 8, 7],
            original_length: 60,
            comment: "drop",
        };
        writer.add_frame(&frame).expect("a vector is writable");
        assert_eq!(writer.finish().expect("a vector is writable"), 40 + 60 + 56);
        let words: Vec<u32> = file
            .chunks_exact(4)
            .map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes")))
            .collect();
        let section = [0x0a0d_0d0a, 40, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 0x0002_0004, 0x6261, 0, 40];
        let description =
            [1, 60, 1, 128, 0x0002_0002, 0x3068, 0x0001_0003, 0x78, 0x0008_0008, 5, 0, 0x0001_0009, 9, 0];
        let packet = [6, 56, 0, 1, 2, 3, 60, 0x0007_0809, 0x0004_0002, 2, 0x0004_0001, 0x706f_7264, 0, 56];
        assert_eq!(words[..10], section);
        assert_eq!(words[10..24], description);
        assert_eq!(words[24], 60);
        assert_eq!(words[25..], packet);
    }
}
