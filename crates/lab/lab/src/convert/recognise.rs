//! Recognises the format of a file by its name and its content.

use crate::files::{FileError, FileErrorKind, read_head};
use crate::scenario::{FlowFormatSpec, TopologyFormatSpec};
use std::path::Path;

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A size distribution.
    Sizes,
    /// A list of flows.
    Flows(FlowFormatSpec),
    /// A network.
    Topology(TopologyFormatSpec),
}

/// Recognises a file by the end of its name, or else by its content.
///
/// The content need not be valid. The most likely format is returned, so that its reader can report the line, the cause
/// and the remedy.
pub fn recognise_file(path: &Path) -> Result<FileKind, FileError> {
    let by_name = match path.extension().and_then(|extension| extension.to_str()) {
        Some("cm" | "tm") => Some(FileKind::Flows(FlowFormatSpec::Htsim)),
        Some("topo") => Some(FileKind::Topology(TopologyFormatSpec::Htsim)),
        _ => None,
    };
    if let Some(kind) = by_name {
        return Ok(kind);
    }
    let unknown = || FileError { path: path.to_owned(), kind: FileErrorKind::UnknownContent };
    recognise_content(&read_head(path)?).ok_or_else(unknown)
}

/// Returns the most likely format of a file that begins with these lines.
fn recognise_content(head: &str) -> Option<FileKind> {
    let lines = head.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).take(200).collect();
    let first = *lines.first()?;
    if first.contains(',') {
        return recognise_columns(first);
    }
    let first_words: Vec<&str> = first.split_whitespace().collect();
    if lines.iter().any(|line| is_node(first_word(line))) {
        return Some(FileKind::Topology(TopologyFormatSpec::Links));
    }
    let starts_with = |line: &str, keys: &[&str]| keys.iter().any(|key| first_word(line) == *key);
    if lines.iter().any(|line| starts_with(line, &["Tiers", "Tier", "Podsize"])) {
        return Some(FileKind::Topology(TopologyFormatSpec::Htsim));
    }
    if first.contains("->") || starts_with(first, &["Nodes", "Connections"]) {
        return Some(FileKind::Flows(FlowFormatSpec::Htsim));
    }
    if !first_words.iter().all(|word| word.parse::<f64>().is_ok()) {
        return None;
    }
    let is_rate = |word: &str| word.ends_with("bps") || word.ends_with("b/s");
    if lines.iter().any(|line| line.split_whitespace().any(is_rate)) {
        return Some(FileKind::Topology(TopologyFormatSpec::Hpcc));
    }
    match first_words.len() {
        1 | 6 => Some(FileKind::Flows(FlowFormatSpec::Hpcc)),
        2 => Some(FileKind::Sizes),
        3 => Some(FileKind::Topology(TopologyFormatSpec::Hpcc)),
        _ => None,
    }
}

/// Returns the most likely format of a file whose first line has commas.
fn recognise_columns(first: &str) -> Option<FileKind> {
    let columns: Vec<&str> = first.split(',').map(str::trim).collect();
    if columns.iter().any(|column| column.contains(char::is_whitespace)) {
        return None;
    }
    let is_of_flows = |column: &&str| ["from", "to"].contains(column) || column.starts_with("start_");
    if columns.len() == 2 && !columns.iter().any(is_of_flows) {
        return Some(FileKind::Sizes);
    }
    Some(FileKind::Flows(FlowFormatSpec::Csv))
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or("")
}

/// Returns whether a word is a host or a switch of a list of links, such as `h0` or `s12`.
fn is_node(word: &str) -> bool {
    let digits = word.strip_prefix(['h', 's']).unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: Option<FileKind> = Some(FileKind::Topology(TopologyFormatSpec::Links));
    const HPCC_NETWORK: Option<FileKind> = Some(FileKind::Topology(TopologyFormatSpec::Hpcc));
    const HPCC_FLOWS: Option<FileKind> = Some(FileKind::Flows(FlowFormatSpec::Hpcc));
    const CSV: Option<FileKind> = Some(FileKind::Flows(FlowFormatSpec::Csv));

    #[test]
    fn formats_are_recognised_by_their_content() {
        let recognise = |text: &str| recognise_content(text);
        assert_eq!(recognise("size_bytes,cdf\n0,0\n"), Some(FileKind::Sizes));
        assert_eq!(recognise("0 0\n100 50\n300 100\n"), Some(FileKind::Sizes));
        assert_eq!(recognise("from,to,size_bytes,start_us\nh0,h1,5,1"), CSV);
        assert_eq!(recognise("2\n0 1 3 100 5 2.0\n"), HPCC_FLOWS);
        assert_eq!(recognise("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 100Gbps 0.001ms 0\n"), HPCC_NETWORK);
        assert_eq!(recognise("# mine\nh0 s0 100 Gbps 1 us\n"), LINKS);
        assert_eq!(
            recognise("Nodes 4\nConnections 1\n0->1 start 0 size 5"),
            Some(FileKind::Flows(FlowFormatSpec::Htsim))
        );
        assert_eq!(
            recognise("Nodes 16\nTiers 2\nPodsize 16\n"),
            Some(FileKind::Topology(TopologyFormatSpec::Htsim))
        );
        assert_eq!(recognise("hello\n"), None);
        assert_eq!(recognise("Hello, this is a text.\n"), None);
        assert_eq!(recognise(""), None);
    }

    #[test]
    fn files_with_mistakes_have_their_most_likely_format() {
        let recognise = |text: &str| recognise_content(text);
        // The delay is missing, a space is missing, or the first line has another mistake.
        assert_eq!(recognise("h0 s0 100 Gbps\n"), LINKS);
        assert_eq!(recognise("h0 s0 100Gbps 1us\n"), LINKS);
        assert_eq!(recognise("link h0 s0 100 Gbps 1 us\nh1 s0 100 Gbps 1 us\n"), LINKS);
        // The header or a column is missing.
        assert_eq!(recognise("h0,h5,131072,10\n"), CSV);
        assert_eq!(recognise("from,to,bytes,start\n"), CSV);
        assert_eq!(recognise("from,to\n"), CSV);
        assert_eq!(recognise("size,cdf\n0,0\n"), Some(FileKind::Sizes));
        // The first line, with its counts, is missing or incomplete.
        assert_eq!(recognise("0 1 3 100 5 2.0\n"), HPCC_FLOWS);
        assert_eq!(recognise("2\n0 1 3 100 5\n"), HPCC_FLOWS);
        assert_eq!(recognise("3 1\n2\n0 2 100Gbps 0.001ms 0\n"), HPCC_NETWORK);
        assert_eq!(recognise("3 1 2\n2\n0 2 100G 1us 0\n"), HPCC_NETWORK);
    }
}
