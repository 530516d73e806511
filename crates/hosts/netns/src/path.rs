//! The location of named network namespaces.

use std::path::{Path, PathBuf};

/// The directory that contains the named namespaces.
const FOLDER: &str = "/run/netns";

/// Returns the path of the file for the namespace `netns`.
pub fn path(netns: &str) -> PathBuf {
    Path::new(FOLDER).join(netns)
}
