//! Errors in files that a scenario names.

use poseidon_plan::topology::EdgeError;
use poseidon_traces::{LowerError, TraceError};
use poseidon_types::Bytes;
use std::path::PathBuf;

/// An error in a file that a scenario names.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {kind}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: FileErrorKind,
}

/// The cause of a file error and its remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum FileErrorKind {
    #[error("cannot read the file: {message}; paths are relative to the folder of the scenario")]
    Unreadable { message: String },
    #[error("the file is outside the folder {}; copy it into that folder", .folder.display())]
    OutsideFolder { folder: PathBuf },
    #[error("it is not a regular file; copy its content into a file")]
    NotAFile,
    #[error("the file has more than {limit}; shorten it")]
    TooLarge { limit: Bytes },
    #[error("byte {byte} is not valid UTF-8; save the file as plain text")]
    NotText { byte: usize },
    #[error(
        "the content is no known format; write links such as \"h0 s0 100 Gbps 1 us\", flows with the header \
         \"from,to,size_bytes,start_us\", sizes with the header \"size_bytes,cdf\", or a file of HPCC or htsim"
    )]
    UnknownContent,
    #[error("its name does not show its format; add format = {formats}")]
    UnknownFormat { formats: &'static str },
    #[error(
        "the unit of start times differs between the programs of htsim; add start-unit = \"ps\" (csg-htsim) or \"us\" \
         (uet-htsim)"
    )]
    NoStartUnit,
    #[error("start-unit is only for htsim files; remove it")]
    UnusedStartUnit,
    #[error("{0}")]
    Trace(TraceError),
    #[error("{}{error}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Flows { line: Option<u64>, error: LowerError },
    #[error("{0}")]
    Links(EdgeError),
    #[error("line {line}: {text:?} is not a number of bytes; write a whole number")]
    NotBytes { line: usize, text: String },
    #[error("line {line} has {columns} numbers, but line 1 has {expected}; write a square matrix")]
    UnevenMatrix { line: usize, columns: usize, expected: usize },
    #[error("the matrix has {rows} rows and {columns} columns; write a square matrix with one row per rank")]
    NotSquare { rows: usize, columns: usize },
    #[error("the matrix has more than {limit} ranks; use fewer ranks")]
    TooManyRanks { limit: usize },
}
