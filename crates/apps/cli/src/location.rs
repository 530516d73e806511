//! Where results are: in a folder, or below a prefix of an object store.

use crate::Failure;
use std::path::Path;

/// Where results are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location<'a> {
    /// A folder.
    Folder(&'a Path),
    /// A URL such as `s3://bucket/prefix`.
    ObjectStore(&'a str),
}

impl<'a> Location<'a> {
    /// Reads the argument of an option such as `--output`.
    pub(crate) fn new(argument: &'a Path) -> Self {
        match argument.to_str() {
            Some(url) if url.starts_with("s3://") => Self::ObjectStore(url),
            _ => Self::Folder(argument),
        }
    }
}

/// Returns an error if a command that needs a folder gets the URL of an object store.
pub(crate) fn require_folder(argument: &Path) -> Result<(), Failure> {
    match Location::new(argument) {
        Location::Folder(_) => Ok(()),
        Location::ObjectStore(url) => Err(Failure::Usage(format!(
            "this command needs a folder; copy the results with `poseidon merge results {url}`, and name that folder"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_name_object_stores() {
        assert_eq!(Location::new(Path::new("s3://b/p")), Location::ObjectStore("s3://b/p"));
        for folder in ["results", "./s3://b", "s3", "/s3:/b", "S3://b"] {
            assert_eq!(Location::new(Path::new(folder)), Location::Folder(Path::new(folder)), "{folder}");
        }
    }
}
