//! Runs code and tools in node namespaces.

use crate::Result;
use poseidon_netns::NetnsError;
use poseidon_plan::PlanError;
use poseidon_plan::topology::Node;

/// Runs `work` in a thread inside a node's namespace. Sockets that `work` opens stay in that namespace.
pub(crate) fn run_in_node<T: Send>(node: Node, work: impl FnOnce() -> T + Send) -> Result<T> {
    poseidon_netns::run_in(&node.to_string(), work).map_err(netns_error)
}

/// Runs a tool with `input` as its standard input, and returns its output.
pub(crate) fn run_tool(tool: &str, arguments: &[&str], input: &str) -> Result<String> {
    poseidon_netns::run_tool(tool, arguments, input).map_err(netns_error)
}

/// Converts a namespace error into a backend error.
pub(crate) fn netns_error(error: NetnsError) -> PlanError {
    PlanError::BackendFailed(error.to_string())
}
