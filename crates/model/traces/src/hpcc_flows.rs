//! The flow file of HPCC's ns-3 simulator.

use crate::checks::{check_announced, check_plain_file, check_plain_flow, check_read_flow, reserve};
use crate::error::{Feature, TraceError, TraceErrorKind, WriteError, WriteErrorKind};
use crate::flows::{FlowFile, FlowStart, StartUnit, TraceFlow};
use crate::text::{Line, Lines, write_decimal};
use poseidon_types::{Bytes, Picos};
use std::io::{BufRead, Write};

const ROW: &str = "source, destination, priority group, destination port, bytes and start in seconds: \
                   \"0 5 3 100 1000 2.0\"";

/// The destination port that HPCC's traffic generator writes.
const DESTINATION_PORT: u32 = 100;

/// Parses a flow file of HPCC's ns-3 simulator.
///
/// The first line gives the number of flows. Each further line gives source, destination, priority group, destination
/// port, bytes and start in seconds. The priority group becomes the flow's priority. The port is not kept. Lines after
/// the announced number of flows are ignored, as in ns-3: HPCC's own file has notes there.
///
/// Returns an error before it reads flows if the file announces more than `max_flows`.
///
/// ```
/// # use poseidon_traces::parse_hpcc;
/// let file = parse_hpcc("1\n2 1 3 100 200000000 2.000001\n".as_bytes(), 1_000_000)?;
/// assert_eq!((file.flows[0].from, file.flows[0].priority), (2, Some(3)));
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_hpcc(reader: impl BufRead, max_flows: usize) -> Result<FlowFile, TraceError> {
    let mut lines = Lines::new(reader);
    let line = lines.expect_line("the number of flows")?;
    let [count] = line.fixed_words("the number of flows")?;
    let announced = line.parse_u64("number of flows", count)?;
    check_announced(line, "flows", announced, max_flows)?;
    let mut flows = reserve(announced);
    for actual in 0..announced {
        let Some(line) = lines.next_line()? else {
            return Err(lines.error(TraceErrorKind::Count { items: "flows", announced, actual }));
        };
        flows.push(parse_flow(line)?);
    }
    Ok(FlowFile { flows, ..FlowFile::default() })
}

/// Writes a flow file for HPCC's ns-3 simulator.
///
/// Returns an error if a flow has no priority or starts before the previous flow, because ns-3 needs priorities and
/// sorted flows. Returns an error if the file has triggers, ids, shared connections, failures or a node count. ns-3
/// counts bytes with 32 bits, so larger flows are refused too.
pub fn write_hpcc(file: &FlowFile, mut output: impl Write) -> Result<(), WriteError> {
    check_plain_file(file)?;
    writeln!(output, "{}", file.flows.len())?;
    let mut last_start = Picos::ZERO;
    for (index, flow) in file.flows.iter().enumerate() {
        let reject = |kind| WriteError { item: Some(index), kind };
        let start = check_plain_flow(flow).map_err(reject)?;
        let priority = flow.priority.ok_or_else(|| reject(WriteErrorKind::Missing(Feature::Priority)))?;
        let (size, max) = (flow.size.get(), u64::from(u32::MAX));
        if size > max {
            return Err(reject(WriteErrorKind::TooLarge { field: "size", value: size, max }));
        }
        if start < last_start {
            return Err(reject(WriteErrorKind::OutOfOrder));
        }
        last_start = start;
        write!(output, "{} {} {priority} {DESTINATION_PORT} {size} ", flow.from, flow.to)?;
        write_decimal(&mut output, start.get(), StartUnit::Seconds.decimals())?;
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

fn parse_flow(line: Line<'_>) -> Result<TraceFlow, TraceError> {
    let [from, to, priority, port, size, start] = line.fixed_words(ROW)?;
    line.parse_u32("destination port", port)?;
    let start = line.parse_decimal("start", start, StartUnit::Seconds.decimals())?;
    let flow = TraceFlow {
        priority: Some(line.parse_u32("priority group", priority)?),
        ..TraceFlow::new(
            line.parse_u32("source", from)?,
            line.parse_u32("destination", to)?,
            Bytes::new(line.parse_u64("bytes", size)?),
            FlowStart::At(Picos::new(start)),
        )
    };
    check_read_flow(line, &flow)?;
    Ok(flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FlowFile, TraceError> {
        parse_hpcc(text.as_bytes(), 1_000)
    }

    fn write(flows: &[TraceFlow]) -> Result<String, WriteError> {
        let mut text = Vec::new();
        write_hpcc(&FlowFile { flows: flows.to_vec(), ..FlowFile::default() }, &mut text)?;
        Ok(String::from_utf8(text).expect("the text is ASCII"))
    }

    #[test]
    fn start_in_seconds_is_exact() {
        // As a 64-bit float, 2.1 s is not a whole number of picoseconds.
        let file =
            parse("2\n2 1 3 100 200000000 2.1\n3 1 4 100 1 2.000000000001\n").expect("the file is valid");
        let starts: Vec<FlowStart> = file.flows.iter().map(|flow| flow.start).collect();
        assert_eq!(
            starts,
            [2_100_000_000_000, 2_000_000_000_001].map(|start| FlowStart::At(Picos::new(start)))
        );
        let flow = file.flows[0];
        assert_eq!((flow.from, flow.to, flow.size.get(), flow.priority), (2, 1, 200_000_000, Some(3)));
    }

    #[test]
    fn lines_after_the_announced_flows_are_ignored() {
        let file = parse("1\n2 1 3 100 200000000 2\n3 1 3 100 200000000 2\n\nFirst line: # of flows\n");
        assert_eq!(file.map(|file| file.flows.len()), Ok(1));
    }

    #[test]
    fn invalid_file_is_refused_with_its_line() {
        let error = |text: &str| parse(text).expect_err("the file is invalid").to_string();
        assert_eq!(error(""), "line 1: the file ends too early; add the number of flows");
        assert_eq!(
            error("2\n2 1 3 100 1 2\n"),
            "line 2: the header announces 2 flows, but the file has 1; correct the header"
        );
        assert_eq!(
            error("18446744073709551615\n"),
            "line 1: the file has more than 1000 flows; split or shorten the file"
        );
        assert!(
            error("1\n2 1 3 100 1\n")
                .starts_with("line 2: the line has too few or too many words; write source")
        );
        assert_eq!(
            error("1\n2 1 3 x 1 2\n"),
            "line 2: destination port \"x\" is not a number; write decimal digits"
        );
        assert_eq!(error("1\n1 1 3 100 1 2\n"), "line 2: both ends are node 1; choose two nodes");
    }

    #[test]
    fn writer_refuses_what_ns3_cannot_read() {
        let flow = TraceFlow {
            priority: Some(3),
            ..TraceFlow::new(0, 1, Bytes::new(7), FlowStart::At(Picos::new(2_500_000_000_000)))
        };
        assert_eq!(write(&[flow]), Ok("1\n0 1 3 100 7 2.5\n".into()));
        let error = |flows: &[TraceFlow]| write(flows).expect_err("ns-3 cannot read it").to_string();
        assert_eq!(
            error(&[TraceFlow { priority: None, ..flow }]),
            "flow 1: this format needs a priority; set one"
        );
        assert_eq!(
            error(&[flow, TraceFlow { start: FlowStart::At(Picos::ZERO), ..flow }]),
            "flow 2: it starts before the previous flow; sort the flows by their start"
        );
        assert_eq!(
            error(&[TraceFlow { size: Bytes::new(1 << 32), ..flow }]),
            "flow 1: size 4294967296 is too large for this format; at most 4294967295 is possible"
        );
    }
}
