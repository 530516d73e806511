//! Finds the line of a flow, for messages about flows that were read before.

use crate::error::TraceError;
use crate::text::{Line, Lines};
use std::io::BufRead;

/// How a format arranges its flows. All formats have one flow per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowLayout {
    /// One line comes first, and each further line is a flow: CSV and the flow files of HPCC.
    AfterFirstLine,
    /// A flow is a line that starts with two nodes, such as `0->5`: htsim.
    Arrows,
}

/// Returns the line number of the flow with this index, starting at one, or `None` if the file has fewer flows.
///
/// A [`FlowFile`](crate::FlowFile) does not store the lines of its flows, because it can have many of them.
///
/// ```
/// # use poseidon_traces::{FlowLayout, find_flow_line};
/// let text = "from,to,size_bytes,start_us\n# two flows\nh0,h5,1000,0\n\nh1,h5,1000,0\n";
/// assert_eq!(find_flow_line(text.as_bytes(), FlowLayout::AfterFirstLine, 1), Ok(Some(5)));
/// ```
pub fn find_flow_line(
    reader: impl BufRead,
    layout: FlowLayout,
    flow: usize,
) -> Result<Option<u64>, TraceError> {
    let mut lines = Lines::new(reader);
    let mut remaining = flow;
    if layout == FlowLayout::AfterFirstLine {
        lines.next_line()?;
    }
    while let Some(line) = lines.next_line()? {
        if !is_flow(line, layout) {
            continue;
        }
        if remaining == 0 {
            return Ok(Some(line.number));
        }
        remaining -= 1;
    }
    Ok(None)
}

fn is_flow(line: Line<'_>, layout: FlowLayout) -> bool {
    match layout {
        FlowLayout::AfterFirstLine => true,
        FlowLayout::Arrows => {
            line.words().next().is_some_and(|word| word.windows(2).any(|pair| pair == b"->"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::StartUnit;
    use crate::htsim_matrix::parse_cm;
    use crate::{parse_csv, parse_hpcc};

    #[test]
    fn the_line_of_each_flow_is_found() {
        let csv = "# mine\nfrom,to,size_bytes,start_us\n\n0,1,1,0\n# pause\n2,1,1,0\n";
        let hpcc = "2\n0 1 3 100 1 0\n\n2 1 3 100 1 0\n3 1 3 100 1 0\n";
        let cm = "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 trigger 1 size 1\ntrigger id 1 oneshot\n\
                  2->1 id 2 start 0 size 1\n";
        let files = [
            (csv, FlowLayout::AfterFirstLine, parse_csv(csv.as_bytes(), 9), [4, 6]),
            (hpcc, FlowLayout::AfterFirstLine, parse_hpcc(hpcc.as_bytes(), 9), [2, 4]),
            (cm, FlowLayout::Arrows, parse_cm(cm.as_bytes(), StartUnit::Picoseconds, 9), [4, 6]),
        ];
        for (text, layout, file, lines) in files {
            let file = file.expect("the file is valid");
            assert_eq!(file.flows[1].from, 2, "{text}");
            for (flow, line) in lines.into_iter().enumerate() {
                assert_eq!(find_flow_line(text.as_bytes(), layout, flow), Ok(Some(line)), "{text}");
            }
        }
        assert_eq!(find_flow_line(cm.as_bytes(), FlowLayout::Arrows, 2), Ok(None));
    }
}
