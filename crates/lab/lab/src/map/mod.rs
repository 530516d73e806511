//! A map of the network of one run: a page that shows the load and the queue of every link at any time of the run.
//!
//! ```text
//! Plan ─> MapNetwork (boxes, links, places) ─┬─> MapSink <─rows─ Backend
//!                                            └─> page <─ MapSamples, Flows ─> map-<cell>.html
//! ```

mod description;
mod encode;
mod flows;
mod grouping;
mod layout;
mod network;
mod page;
mod rates;
mod recorded;
mod sampling;
mod wiring;

pub use page::MapRun;
pub use recorded::record_map;

use crate::manifest::content_hash;
use crate::scenario::GroupedDigits;

/// The reason that a map cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The network has too many ports.
    #[error(
        "the network has more than {} switch ports, which a map cannot show; use a smaller network",
        GroupedDigits(u64::from(*.limit))
    )]
    TooManyPorts {
        /// The maximum number of ports.
        limit: u32,
    },
    /// The network has too many links, even if it is drawn by rack.
    #[error(
        "by rack, the network still has {links} links, and a map shows at most {limit}; use a smaller network"
    )]
    TooManyLinks {
        /// The number of links between boxes.
        links: GroupedDigits,
        /// The maximum number.
        limit: GroupedDigits,
    },
    /// The run has no samples.
    #[error("the run ended before the first sample after {every}; give it more time (`stop`)")]
    NoSamples {
        /// The time between two samples.
        every: poseidon_types::Picos,
    },
    /// The page would be too large, even with a single time step.
    #[error(
        "the page would have {size} bytes, and a map has at most {limit}; use fewer flows or a smaller network"
    )]
    TooLarge {
        /// The size with the fewest samples.
        size: GroupedDigits,
        /// The maximum size.
        limit: GroupedDigits,
    },
    /// The backend rejects the recording.
    #[error("the map cannot be recorded: {0}")]
    Plan(#[from] poseidon_plan::PlanError),
    /// The description of the network cannot be written as JSON.
    #[error("cannot write the map as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Returns the name of the file that contains the map of a cell: `map-law-swift.html`. Letters, digits, dots and dashes
/// of the cell's name stay; other characters become dashes. Other seeds than the first have their number in the name.
pub fn file_name(cell: &str, seed: u64) -> String {
    let mut name = String::from("map");
    for word in cell.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty()) {
        name.push('-');
        name.push_str(word);
    }
    if cell.is_empty() {
        name.push_str("-run");
    }
    if seed != 1 {
        name.push_str(&format!("-seed{seed}"));
    }
    if name.len() > MAX_NAME {
        // The name is ASCII, so every byte is a character.
        name.truncate(MAX_NAME);
        name.push_str(&format!("-{}", content_hash(format!("{cell}\n{seed}").as_bytes())));
    }
    name.push_str(".html");
    name
}

/// The length of a file's name above which it is cut. File systems allow 255 bytes.
const MAX_NAME: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_contain_the_cell() {
        assert_eq!(file_name("law swift, load 0.8", 1), "map-law-swift-load-0.8.html");
        assert_eq!(file_name("", 1), "map-run.html");
        assert_eq!(file_name("law swift", 3), "map-law-swift-seed3.html");
        let [long, other] = ["a", "b"].map(|end| file_name(&format!("{}{end}", "name ".repeat(60)), 1));
        assert!(long.len() < 150 && long != other);
        assert_eq!(file_name("name ../../etc/<b>", 1), "map-name-..-..-etc-b.html");
    }
}
