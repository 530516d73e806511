//! Flow lists as CSV, the project's own form.

use crate::checks::{check_plain_file, check_plain_flow, check_read_flow, push_limited};
use crate::error::{TraceError, TraceErrorKind, WriteError};
use crate::flows::{FlowFile, FlowStart, StartUnit, TraceFlow};
use crate::text::{Line, Lines};
use poseidon_types::{Bytes, Picos};
use std::io::{BufRead, Write};

/// The number of different columns.
const MAX_COLUMNS: usize = 5;
const COLUMNS: &str = "the columns from, to, size_bytes, one of start_ps, start_ns, start_us, start_ms and start_s, \
                       and optionally priority";

/// Parses a flow list in CSV form.
///
/// The first line names the columns, in any order. The column `start_UNIT` names the unit of the start times. Nodes are
/// numbers, with or without the letter `h`. An empty priority means that the flow has none. `#` starts a comment.
///
/// Returns an error as soon as the file has more than `max_flows` flows.
///
/// ```
/// # use poseidon_traces::parse_csv;
/// let text = "from,to,size_bytes,start_us,priority\nh0,h5,1000,2.5,\nh1,h5,1000,3,7\n";
/// let file = parse_csv(text.as_bytes(), 1_000_000)?;
/// assert_eq!(file.flows[1].priority, Some(7));
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_csv(reader: impl BufRead, max_flows: usize) -> Result<FlowFile, TraceError> {
    let mut lines = Lines::new(reader);
    let header = lines.expect_line("a header such as \"from,to,size_bytes,start_us\"")?;
    let columns = Columns::parse(header)?;
    let mut file = FlowFile::default();
    while let Some(line) = lines.next_line()? {
        let flow = columns.parse_flow(line)?;
        check_read_flow(line, &flow)?;
        push_limited(line, "flows", &mut file.flows, flow, max_flows)?;
    }
    Ok(file)
}

/// Writes a flow list in CSV form, with start times in picoseconds.
///
/// Returns an error if the file has triggers, ids, shared connections, failures or a node count.
/// [`FlowFile::remove_labels`] removes a node count and unused ids.
pub fn write_csv(file: &FlowFile, mut output: impl Write) -> Result<(), WriteError> {
    check_plain_file(file)?;
    let has_priority = file.flows.iter().any(|flow| flow.priority.is_some());
    let header =
        if has_priority { "from,to,size_bytes,start_ps,priority" } else { "from,to,size_bytes,start_ps" };
    writeln!(output, "{header}")?;
    for (index, flow) in file.flows.iter().enumerate() {
        let start = check_plain_flow(flow).map_err(|kind| WriteError { item: Some(index), kind })?;
        write!(output, "{},{},{},{}", flow.from, flow.to, flow.size.get(), start.get())?;
        if has_priority {
            output.write_all(b",")?;
        }
        if let Some(priority) = flow.priority {
            write!(output, "{priority}")?;
        }
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

/// The position of each column.
struct Columns {
    count: usize,
    from: usize,
    to: usize,
    size: usize,
    start: usize,
    unit: StartUnit,
    priority: Option<usize>,
}

impl Columns {
    /// Parses the header.
    fn parse(line: Line<'_>) -> Result<Self, TraceError> {
        let (mut from, mut to, mut size, mut start, mut priority) = (None, None, None, None, None);
        let mut count = 0;
        for (index, name) in line.text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).enumerate() {
            let (column, item) = match name {
                b"from" => (from.replace(index), "column from"),
                b"to" => (to.replace(index), "column to"),
                b"size_bytes" => (size.replace(index), "column size_bytes"),
                b"priority" => (priority.replace(index), "column priority"),
                _ => {
                    let unit = parse_start_unit(name).ok_or_else(|| line.unknown_word(name, COLUMNS))?;
                    (start.replace((index, unit)).map(|(index, _)| index), "column start")
                }
            };
            if column.is_some() {
                return Err(line.error(TraceErrorKind::Duplicate { item }));
            }
            count = index + 1;
        }
        let missing = |field| move || line.error(TraceErrorKind::Missing { field });
        let (start, unit) =
            start.ok_or_else(missing("column start_us (or start_ps, start_ns, start_ms, start_s)"))?;
        Ok(Self {
            count,
            from: from.ok_or_else(missing("column from"))?,
            to: to.ok_or_else(missing("column to"))?,
            size: size.ok_or_else(missing("column size_bytes"))?,
            start,
            unit,
            priority,
        })
    }

    /// Parses a row.
    fn parse_flow(&self, line: Line<'_>) -> Result<TraceFlow, TraceError> {
        let mut cells: [&[u8]; MAX_COLUMNS] = [&[]; MAX_COLUMNS];
        let mut count = 0;
        for cell in line.text.split(|byte| *byte == b',') {
            if count == self.count {
                count += 1;
                break;
            }
            cells[count] = cell.trim_ascii();
            count += 1;
        }
        if count != self.count {
            return Err(
                line.error(TraceErrorKind::Syntax { expected: "one cell for each column of the header" })
            );
        }
        let start = line.parse_decimal("start", cells[self.start], self.unit.decimals())?;
        let priority = match self.priority.map(|column| cells[column]) {
            None | Some([]) => None,
            Some(cell) => Some(line.parse_u32("priority", cell)?),
        };
        Ok(TraceFlow {
            priority,
            ..TraceFlow::new(
                parse_node(line, "from", cells[self.from])?,
                parse_node(line, "to", cells[self.to])?,
                Bytes::new(line.parse_u64("size_bytes", cells[self.size])?),
                FlowStart::At(Picos::new(start)),
            )
        })
    }
}

/// Parses the unit in a column name such as `start_us`.
fn parse_start_unit(name: &[u8]) -> Option<StartUnit> {
    let symbol = name.strip_prefix(b"start_")?;
    StartUnit::ALL.into_iter().find(|unit| unit.symbol().as_bytes() == symbol)
}

/// Parses a node such as `3` or `h3`.
fn parse_node(line: Line<'_>, field: &'static str, cell: &[u8]) -> Result<u32, TraceError> {
    line.parse_u32(field, cell.strip_prefix(b"h").unwrap_or(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FlowFile, TraceError> {
        parse_csv(text.as_bytes(), 1_000)
    }

    fn error(text: &str) -> String {
        parse(text).expect_err("the file is invalid").to_string()
    }

    #[test]
    fn columns_can_have_any_order() {
        let flow = |from, start| TraceFlow::new(from, 5, Bytes::new(1_000), FlowStart::At(Picos::new(start)));
        let table = [
            "from,to,size_bytes,start_ps\n0,5,1000,2500000\n1,5,1000,0\n",
            "# a comment\nstart_us , size_bytes, to,from\n2.5,1000,h5,h0 # first\n\n0,1000,5,1",
            "to,from,start_s,size_bytes\r\n5,0,0.0000025,1000\r\n5,1,0,1000\r\n",
            "to,from,start_ms,size_bytes,priority\n5,0,0.0025,1000,\n5,1,0,1000,",
            "to,from,start_ns,size_bytes\n5,0,2500,1000\n5,1,.0,1000",
        ];
        for text in table {
            assert_eq!(
                parse(text).map(|file| file.flows),
                Ok(vec![flow(0, 2_500_000), flow(1, 0)]),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_header_is_refused() {
        assert_eq!(
            error("\n\n"),
            "line 3: the file ends too early; add a header such as \"from,to,size_bytes,start_us\""
        );
        assert_eq!(error("from,to,size_bytes\n"), MISSING_START);
        assert_eq!(error("from,to,start_us\n"), "line 1: column size_bytes is missing; add it");
        assert_eq!(error("from,to,from,start_us\n"), "line 1: column from is given twice; keep one");
        assert_eq!(error("start_us,start_ns\n"), "line 1: column start is given twice; keep one");
        assert!(error("from,to,start_h\n").starts_with("line 1: \"start_h\" is unknown; write the columns"));
    }

    const MISSING_START: &str =
        "line 1: column start_us (or start_ps, start_ns, start_ms, start_s) is missing; add it";

    #[test]
    fn invalid_row_is_refused_with_its_line() {
        let error = |row: &str| error(&format!("from,to,size_bytes,start_us\n{row}\n"));
        let cells =
            "line 2: the line has too few or too many words; write one cell for each column of the header";
        assert_eq!(error("0,5,1000"), cells);
        assert_eq!(error("0,5,1000,0,0"), cells);
        assert_eq!(error("0,5,1000,0,0,0,0,0"), cells);
        assert_eq!(error("s0,5,1000,0"), "line 2: from \"s0\" is not a number; write decimal digits");
        assert_eq!(error("0,5,1000,1e3"), "line 2: start \"1e3\" is not a number; write decimal digits");
        assert_eq!(
            error("0,5,1000,0.0000001"),
            "line 2: start \"0.0000001\" has too many decimals; write fewer"
        );
        assert_eq!(
            error("0,4294967296,1,0"),
            "line 2: to \"4294967296\" is too large; write a smaller number"
        );
        assert_eq!(error("0,5,0,0"), "line 2: the flow is empty; give it a size above zero");
        assert_eq!(error("5,5,1,0"), "line 2: both ends are node 5; choose two nodes");
    }

    #[test]
    fn limit_is_enforced_at_the_first_surplus_flow() {
        let text = "from,to,size_bytes,start_us\n0,1,1,0\n0,1,1,0\nnot read";
        let error = parse_csv(text.as_bytes(), 1).expect_err("there are two flows").to_string();
        assert_eq!(error, "line 3: the file has more than 1 flows; split or shorten the file");
        assert_eq!(parse_csv(&text.as_bytes()[..36], 1).map(|file| file.flows.len()), Ok(1));
    }
}
