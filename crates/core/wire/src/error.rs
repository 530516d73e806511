//! Why bytes are not what they claim to be.

use core::fmt;

/// The cause, with the values that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The buffer ends before the format does.
    Truncated {
        /// Bytes the format needs.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A version this crate does not speak.
    BadVersion {
        /// The version spoken here.
        expected: u8,
        /// The version in the bytes.
        found: u8,
    },
    /// Another kind, type or option number.
    BadKind {
        /// The kind spoken here.
        expected: u8,
        /// The kind in the bytes.
        found: u8,
    },
    /// Another experiment identifier (RFC 6994) or tag protocol identifier.
    BadIdentifier {
        /// The identifier asked for.
        expected: u16,
        /// The identifier in the bytes.
        found: u16,
    },
    /// A length field that contradicts the rest of the header.
    BadLength {
        /// Which length.
        what: &'static str,
        /// What the rest of the header implies.
        expected: usize,
        /// What the field says.
        found: usize,
    },
    /// More hops than the format can hold.
    TooManyHops {
        /// The most it holds.
        max: usize,
        /// Hops claimed or asked for.
        found: usize,
    },
    /// A line rate that the rate table lacks.
    UnknownRate {
        /// The rate in bits per second.
        bps: u64,
    },
    /// A rate code that the rate table lacks.
    UnknownRateCode {
        /// The code in the bytes.
        code: u8,
    },
    /// A quantisation table that does not rise.
    NotMonotone {
        /// The first entry that is not above its predecessor.
        at: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { need, have } => {
                write!(f, "the buffer has {have} bytes, the format needs {need}")
            }
            Self::BadVersion { expected, found } => {
                write!(f, "version {found} found, only version {expected} is spoken")
            }
            Self::BadKind { expected, found } => {
                write!(f, "kind {found:#04x} found, {expected:#04x} expected")
            }
            Self::BadIdentifier { expected, found } => {
                write!(f, "identifier {found:#06x} found, {expected:#06x} expected")
            }
            Self::BadLength { what, expected, found } => {
                write!(f, "{what} is {found}, the rest of the header implies {expected}")
            }
            Self::TooManyHops { max, found } => {
                write!(f, "{found} hops do not fit, the format holds {max}")
            }
            Self::UnknownRate { bps } => {
                write!(f, "a line rate of {bps} bps is not in the rate table; add it")
            }
            Self::UnknownRateCode { code } => {
                write!(f, "rate code {code} is not in the rate table")
            }
            Self::NotMonotone { at } => {
                write!(f, "entry {at} of the quantisation table is not above the one before")
            }
        }
    }
}

impl core::error::Error for Error {}

/// `Ok`, or why not.
pub type Result<T> = core::result::Result<T, Error>;

/// Demands `need` bytes.
pub(crate) const fn demand(bytes: &[u8], need: usize) -> Result<()> {
    if bytes.len() < need { Err(Error::Truncated { need, have: bytes.len() }) } else { Ok(()) }
}
