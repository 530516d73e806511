//! The flow completion times of HPCC's ns-3 simulator: `fct.txt`.

use crate::checks::push_limited;
use crate::error::{NumberProblem, TraceError, TraceErrorKind, WriteError, WriteErrorKind};
use crate::text::{Line, Lines, quote};
use poseidon_types::{Bytes, Nanos};
use std::io::{BufRead, Write};

const ROW: &str = "source and destination address, source and destination port, bytes, and start, completion time and \
                   standalone completion time in ns: \"0b000001 0b000101 10000 100 1000 2000000000 9000 8000\"";

/// The address of node 0. HPCC's ns-3 gives node `n` the address 11.x.y.1, where x and y are the bytes of `n`.
const FIRST_ADDRESS: u32 = 0x0b00_0001;
/// The bits of an address that hold the node number.
const NODE_BITS: u32 = 0x00ff_ff00;

/// A completed flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FctRow {
    /// The sending node, below 65,536.
    pub from: u32,
    /// The receiving node, below 65,536.
    pub to: u32,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The flow size.
    pub size: Bytes,
    /// The start.
    pub start: Nanos,
    /// The time from the start until the sender has received all acknowledgements.
    pub completion: Nanos,
    /// The completion time in an idle network.
    pub standalone: Nanos,
}

/// Parses the flow completion times of HPCC's ns-3 simulator.
///
/// Returns an error as soon as the file has more than `max_rows` rows.
///
/// ```
/// # use poseidon_traces::parse_fct;
/// let rows = parse_fct("0b000201 0b000101 10000 100 1000 2000000000 9000 8000\n".as_bytes(), 1_000_000)?;
/// assert_eq!((rows[0].from, rows[0].to, rows[0].completion.get()), (2, 1, 9_000));
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_fct(reader: impl BufRead, max_rows: usize) -> Result<Vec<FctRow>, TraceError> {
    let mut lines = Lines::new(reader);
    let mut rows = Vec::new();
    while let Some(line) = lines.next_line()? {
        push_limited(line, "rows", &mut rows, parse_row(line)?, max_rows)?;
    }
    Ok(rows)
}

/// Writes flow completion times in the form of HPCC's ns-3 simulator. Returns an error if a node has no address.
pub fn write_fct(rows: &[FctRow], mut output: impl Write) -> Result<(), WriteError> {
    for (index, row) in rows.iter().enumerate() {
        let reject = |kind| WriteError { item: Some(index), kind };
        let (from, to) = (address_of(row.from).map_err(reject)?, address_of(row.to).map_err(reject)?);
        let (source_port, destination_port) = (row.source_port, row.destination_port);
        write!(output, "{from:08x} {to:08x} {source_port} {destination_port} {}", row.size.get())?;
        writeln!(output, " {} {} {}", row.start.get(), row.completion.get(), row.standalone.get())?;
    }
    Ok(output.flush()?)
}

fn parse_row(line: Line<'_>) -> Result<FctRow, TraceError> {
    let [from, to, source_port, destination_port, size, start, completion, standalone] =
        line.fixed_words(ROW)?;
    let nanos = |field, word| line.parse_u64(field, word).map(Nanos::new);
    Ok(FctRow {
        from: parse_address(line, from)?,
        to: parse_address(line, to)?,
        source_port: parse_port(line, "source port", source_port)?,
        destination_port: parse_port(line, "destination port", destination_port)?,
        size: Bytes::new(line.parse_u64("bytes", size)?),
        start: nanos("start", start)?,
        completion: nanos("completion time", completion)?,
        standalone: nanos("standalone completion time", standalone)?,
    })
}

/// Parses an address such as `0b000201` and returns its node.
fn parse_address(line: Line<'_>, word: &[u8]) -> Result<u32, TraceError> {
    let is_hex = word.len() == 8 && word.iter().all(u8::is_ascii_hexdigit);
    let text = core::str::from_utf8(word).ok().filter(|_| is_hex);
    let address = text.and_then(|text| u32::from_str_radix(text, 16).ok());
    match address {
        Some(address) if address & !NODE_BITS == FIRST_ADDRESS => Ok((address & NODE_BITS) >> 8),
        Some(_) | None => Err(line.error(TraceErrorKind::Address { text: quote(word) })),
    }
}

fn parse_port(line: Line<'_>, field: &'static str, word: &[u8]) -> Result<u16, TraceError> {
    let port = line.parse_u32(field, word)?;
    u16::try_from(port).map_err(|_| line.number_error(field, word, NumberProblem::TooLarge))
}

/// Returns the address of a node.
const fn address_of(node: u32) -> Result<u32, WriteErrorKind> {
    const MAX_NODE: u32 = NODE_BITS >> 8;
    if node <= MAX_NODE {
        Ok(FIRST_ADDRESS + (node << 8))
    } else {
        Err(WriteErrorKind::TooLarge { field: "node", value: node as u64, max: MAX_NODE as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_have_the_addresses_of_ns3() {
        // HPCC's function node_id_to_ip.
        let ns3_address = |id: u32| 0x0b00_0001 + ((id / 256) * 0x0001_0000) + ((id % 256) * 0x0000_0100);
        for node in 0..65_536 {
            assert_eq!(address_of(node), Ok(ns3_address(node)));
        }
        assert!(address_of(65_536).is_err());
    }

    #[test]
    fn invalid_row_is_refused_with_its_line() {
        let error = |text: &str| parse_fct(text.as_bytes(), 2).expect_err("the file is invalid").to_string();
        let row = "0b000201 0b000101 10000 100 1000 2 9 8\n";
        let with = |from: &str, to: &str| error(&row.replacen(from, to, 1));
        let address = "is not the address of a node; write 0bXXXX01, where XXXX is the node";
        for word in ["0b000202", "0a000201", "b000201", "0x000201", "+b000201", "0b0002010"] {
            assert_eq!(with("0b000201", word), format!("line 1: {word:?} {address}"));
        }
        assert_eq!(
            with("10000", "65536"),
            "line 1: source port \"65536\" is too large; write a smaller number"
        );
        assert!(
            with(" 8", "").starts_with("line 1: the line has too few or too many words; write source and")
        );
        assert_eq!(error(&row.repeat(3)), "line 3: the file has more than 2 rows; split or shorten the file");
    }

    proptest! {
        #[test]
        fn written_rows_parse_to_the_same_rows(
            rows in prop::collection::vec((0u32..65_536, 0u32..65_536, any::<[u16; 2]>(), any::<[u64; 4]>()), 0..20)
        ) {
            let row = |(from, to, ports, numbers): (u32, u32, [u16; 2], [u64; 4])| FctRow {
                from,
                to,
                source_port: ports[0],
                destination_port: ports[1],
                size: Bytes::new(numbers[0]),
                start: Nanos::new(numbers[1]),
                completion: Nanos::new(numbers[2]),
                standalone: Nanos::new(numbers[3]),
            };
            let rows: Vec<FctRow> = rows.into_iter().map(row).collect();
            let mut text = Vec::new();
            prop_assert_eq!(write_fct(&rows, &mut text), Ok(()));
            prop_assert_eq!(parse_fct(&text[..], rows.len()), Ok(rows));
        }
    }
}
