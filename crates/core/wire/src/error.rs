//! The error type shared by all parsers and writers.

use core::fmt;

/// The reason that parsing or encoding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The buffer is shorter than the header.
    Truncated {
        /// The required length in bytes.
        need: usize,
        /// The buffer length in bytes.
        have: usize,
    },
    /// The version is not supported.
    BadVersion {
        /// The supported version.
        expected: u8,
        /// The version in the header.
        found: u8,
    },
    /// The kind, type or option number does not match.
    BadKind {
        /// The expected kind.
        expected: u8,
        /// The kind in the header.
        found: u8,
    },
    /// The experiment identifier (RFC 6994) or the tag protocol identifier does not match.
    BadIdentifier {
        /// The expected identifier.
        expected: u16,
        /// The identifier in the header.
        found: u16,
    },
    /// A length field contradicts the rest of the header.
    BadLength {
        /// The name of the length field.
        field: &'static str,
        /// The length that the rest of the header implies.
        expected: usize,
        /// The field's value.
        found: usize,
    },
    /// The number of hops exceeds the format's limit.
    TooManyHops {
        /// The maximum number of hops.
        max: usize,
        /// The number of hops in the header or requested by the caller.
        found: usize,
    },
    /// The rate table does not contain this line rate.
    UnknownRate {
        /// The line rate in bit/s.
        bps: u64,
    },
    /// The rate table does not contain this rate code.
    UnknownRateCode {
        /// The code in the header.
        code: u8,
    },
    /// The quantisation table is not strictly increasing.
    NotMonotone {
        /// The index of the first entry that is not larger than its predecessor.
        index: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { need, have } => {
                write!(f, "the buffer has {have} bytes, but the header needs {need}")
            }
            Self::BadVersion { expected, found } => {
                write!(f, "version {found} is not supported; expected version {expected}")
            }
            Self::BadKind { expected, found } => {
                write!(f, "kind is {found:#04x}, expected {expected:#04x}")
            }
            Self::BadIdentifier { expected, found } => {
                write!(f, "identifier is {found:#06x}, expected {expected:#06x}")
            }
            Self::BadLength { field, expected, found } => {
                write!(f, "{field} is {found}, but the rest of the header implies {expected}")
            }
            Self::TooManyHops { max, found } => {
                write!(f, "{found} hops exceed the limit of {max}")
            }
            Self::UnknownRate { bps } => {
                write!(f, "the rate table does not contain {bps} bps; add this rate")
            }
            Self::UnknownRateCode { code } => {
                write!(f, "the rate table does not contain rate code {code}")
            }
            Self::NotMonotone { index } => {
                write!(f, "entry {index} of the quantisation table is not larger than the previous entry")
            }
        }
    }
}

impl core::error::Error for Error {}

/// The result of parsing or writing a header.
pub type Result<T> = core::result::Result<T, Error>;

/// Checks that the buffer has at least `need` bytes.
pub(crate) const fn check_len(bytes: &[u8], need: usize) -> Result<()> {
    if bytes.len() < need { Err(Error::Truncated { need, have: bytes.len() }) } else { Ok(()) }
}
