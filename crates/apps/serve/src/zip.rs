//! Writes zip archives without compression. Row files are compressed already.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The path inside the archive, with `/` between folders.
    pub(crate) name: String,
    /// The file to read.
    pub(crate) file: PathBuf,
}

/// A written entry, for the directory at the end of the archive.
struct Written {
    name: String,
    crc: u32,
    size: u32,
    offset: u32,
}

/// The largest archive. Larger archives need the zip64 format.
pub(crate) const MAX_ARCHIVE: u64 = 4_000_000_000;

/// Writes an archive. Fails if a file changes meanwhile.
pub(crate) fn write_archive(out: &mut dyn Write, entries: &[Entry]) -> io::Result<()> {
    let mut out = CountingWriter { out, written: 0 };
    let mut directory = Vec::with_capacity(entries.len());
    for entry in entries {
        let (crc, size) = checksum(&entry.file)?;
        let written =
            Written { name: entry.name.clone(), crc, size: to_u32(size)?, offset: to_u32(out.written)? };
        out.write_all(&local_header(&written))?;
        let mut file = File::open(&entry.file)?.take(size);
        if io::copy(&mut file, &mut out)? != size {
            return Err(io::Error::other(format!("{} became shorter while it was read", entry.name)));
        }
        directory.push(written);
    }
    let start = out.written;
    for written in &directory {
        out.write_all(&directory_entry(written))?;
    }
    let end = end_of_directory(directory.len(), start, out.written - start)?;
    out.write_all(&end)
}

fn to_u32(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| io::Error::other("the archive would exceed 4 GB"))
}

/// The version that a reader needs, the flag for UTF-8 names, the method "stored", and 1980-01-01 as the time.
fn common_header(written: &Written) -> Vec<u8> {
    let mut header = Vec::new();
    for field in [20_u16, 0x0800, 0, 0, 0x21] {
        header.extend(field.to_le_bytes());
    }
    for field in [written.crc, written.size, written.size] {
        header.extend(field.to_le_bytes());
    }
    let length = u16::try_from(written.name.len()).unwrap_or(u16::MAX);
    header.extend(length.to_le_bytes());
    header.extend(0_u16.to_le_bytes());
    header
}

fn local_header(written: &Written) -> Vec<u8> {
    let mut header = 0x0403_4b50_u32.to_le_bytes().to_vec();
    header.extend(common_header(written));
    header.extend(written.name.as_bytes());
    header
}

fn directory_entry(written: &Written) -> Vec<u8> {
    let mut entry = 0x0201_4b50_u32.to_le_bytes().to_vec();
    entry.extend(20_u16.to_le_bytes());
    entry.extend(common_header(written));
    // No comment, the first disk, and no attributes.
    entry.extend([0; 10]);
    entry.extend(written.offset.to_le_bytes());
    entry.extend(written.name.as_bytes());
    entry
}

fn end_of_directory(entries: usize, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let entries = u16::try_from(entries).map_err(|_| io::Error::other("the archive has too many files"))?;
    let mut end = 0x0605_4b50_u32.to_le_bytes().to_vec();
    end.extend([0; 4]);
    end.extend(entries.to_le_bytes());
    end.extend(entries.to_le_bytes());
    end.extend(to_u32(length)?.to_le_bytes());
    end.extend(to_u32(start)?.to_le_bytes());
    end.extend(0_u16.to_le_bytes());
    Ok(end)
}

/// Returns the CRC-32 and the size of a file.
fn checksum(path: &PathBuf) -> io::Result<(u32, u64)> {
    let table = crc_table();
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 64 << 10]);
    let (mut crc, mut size) = (u32::MAX, 0);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok((!crc, size));
        }
        crc = buffer[..length].iter().fold(crc, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            table[usize::from(low ^ byte)] ^ (crc >> 8)
        });
        size += length as u64;
    }
}

fn crc_table() -> [u32; 256] {
    core::array::from_fn(|index| {
        let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        #[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
        (0..8).fold(index as u32, |crc, _| step(crc))
    })
}

/// Counts the bytes that it writes.
struct CountingWriter<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let path = std::env::temp_dir().join(format!("poseidon-crc-{}", std::process::id()));
        std::fs::write(&path, "123456789").expect("the folder is writable");
        assert_eq!(checksum(&path).expect("the file exists"), (0xcbf4_3926, 9));
        std::fs::remove_file(&path).expect("the file exists");
    }

    #[test]
    fn an_archive_has_a_directory() {
        let path = std::env::temp_dir().join(format!("poseidon-zip-{}", std::process::id()));
        std::fs::write(&path, "content").expect("the folder is writable");
        let entry = |name: &str| Entry { name: name.into(), file: path.clone() };
        let mut archive = Vec::new();
        write_archive(&mut archive, &[entry("a/first.txt"), entry("second.txt")]).expect("the file exists");
        std::fs::remove_file(&path).expect("the file exists");
        let contains =
            |text: &str| archive.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
        assert_eq!((contains("a/first.txt"), contains("content")), (2, 2));
        let end = &archive[archive.len() - 22..];
        assert_eq!(&end[..4], b"PK\x05\x06");
        assert_eq!(u16::from_le_bytes([end[10], end[11]]), 2);
        let start = u32::from_le_bytes([end[16], end[17], end[18], end[19]]) as usize;
        assert_eq!(&archive[start..start + 4], b"PK\x01\x02");
    }
}
