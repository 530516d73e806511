//! Error codes, their texts, and the struct that explains an error.

use crate::message::Message;
use core::ffi::CStr;
use core::fmt::{Arguments, Display};

/// The result of a function: zero or more on success, a negative error code otherwise.
#[allow(non_camel_case_types, reason = "the name is the same in C")]
pub type poseidon_status = i32;

/// Success.
pub const POSEIDON_OK: poseidon_status = 0;
/// A pointer is null.
pub const POSEIDON_ERROR_NULL_POINTER: poseidon_status = -1;
/// A pointer is not aligned for its type.
pub const POSEIDON_ERROR_MISALIGNED: poseidon_status = -2;
/// A struct's struct_size is smaller than the first version of the struct.
pub const POSEIDON_ERROR_STRUCT_TOO_SMALL: poseidon_status = -3;
/// A struct is larger than this library knows, and a field that the library does not know is not zero.
pub const POSEIDON_ERROR_STRUCT_TOO_NEW: poseidon_status = -4;
/// The memory for the state is too small.
pub const POSEIDON_ERROR_STATE_TOO_SMALL: poseidon_status = -5;
/// The state is not initialised, was destroyed, or was initialised by another version of this library.
pub const POSEIDON_ERROR_NOT_INITIALISED: poseidon_status = -6;
/// A text is longer than POSEIDON_MAX_TEXT or is not UTF-8.
pub const POSEIDON_ERROR_TEXT: poseidon_status = -7;
/// There is no law, parameter or preset with this name or index.
pub const POSEIDON_ERROR_UNKNOWN_NAME: poseidon_status = -8;
/// The parameters are not a list of name=value, separated by commas.
pub const POSEIDON_ERROR_SYNTAX: poseidon_status = -9;
/// A value is not valid for its parameter's type, for example because its unit is missing.
pub const POSEIDON_ERROR_VALUE: poseidon_status = -10;
/// A parameter is outside its range.
pub const POSEIDON_ERROR_RANGE: poseidon_status = -11;
/// The path is outside the range that laws support.
pub const POSEIDON_ERROR_PATH: poseidon_status = -12;
/// The host does not supply a signal that the law needs.
pub const POSEIDON_ERROR_MISSING_SIGNALS: poseidon_status = -13;
/// A set of flags has a bit that this library does not know.
pub const POSEIDON_ERROR_UNKNOWN_FLAGS: poseidon_status = -14;
/// There are more hop records than POSEIDON_MAX_HOPS, or than the format or the caller's array can hold.
pub const POSEIDON_ERROR_TOO_MANY_HOPS: poseidon_status = -15;
/// A buffer is shorter than the header, or than the header says.
pub const POSEIDON_ERROR_TRUNCATED: poseidon_status = -16;
/// The header has another version.
pub const POSEIDON_ERROR_BAD_VERSION: poseidon_status = -17;
/// The header has another kind, type or option number.
pub const POSEIDON_ERROR_BAD_KIND: poseidon_status = -18;
/// The header has another experiment identifier.
pub const POSEIDON_ERROR_BAD_IDENTIFIER: poseidon_status = -19;
/// A length in the header contradicts the rest of the header.
pub const POSEIDON_ERROR_BAD_LENGTH: poseidon_status = -20;
/// The line rate or its code is not in the format's rate table.
pub const POSEIDON_ERROR_UNKNOWN_RATE: poseidon_status = -21;
/// The format limits the number of hops, and the packet has reached the limit. The packet says so now.
pub const POSEIDON_ERROR_HOP_LIMIT: poseidon_status = -22;
/// The hop's data does not fit in the packet. The packet says so now.
pub const POSEIDON_ERROR_NO_SPACE: poseidon_status = -23;
/// A hop's record is incomplete or the rate of its port is unknown.
pub const POSEIDON_ERROR_INCOMPLETE: poseidon_status = -24;
/// Another error of a telemetry format.
pub const POSEIDON_ERROR_FORMAT: poseidon_status = -25;

/// The reasons for which a function fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Failure {
    NullPointer = POSEIDON_ERROR_NULL_POINTER,
    Misaligned = POSEIDON_ERROR_MISALIGNED,
    StructTooSmall = POSEIDON_ERROR_STRUCT_TOO_SMALL,
    StructTooNew = POSEIDON_ERROR_STRUCT_TOO_NEW,
    StateTooSmall = POSEIDON_ERROR_STATE_TOO_SMALL,
    NotInitialised = POSEIDON_ERROR_NOT_INITIALISED,
    Text = POSEIDON_ERROR_TEXT,
    UnknownName = POSEIDON_ERROR_UNKNOWN_NAME,
    Syntax = POSEIDON_ERROR_SYNTAX,
    Value = POSEIDON_ERROR_VALUE,
    Range = POSEIDON_ERROR_RANGE,
    Path = POSEIDON_ERROR_PATH,
    MissingSignals = POSEIDON_ERROR_MISSING_SIGNALS,
    UnknownFlags = POSEIDON_ERROR_UNKNOWN_FLAGS,
    TooManyHops = POSEIDON_ERROR_TOO_MANY_HOPS,
    Truncated = POSEIDON_ERROR_TRUNCATED,
    BadVersion = POSEIDON_ERROR_BAD_VERSION,
    BadKind = POSEIDON_ERROR_BAD_KIND,
    BadIdentifier = POSEIDON_ERROR_BAD_IDENTIFIER,
    BadLength = POSEIDON_ERROR_BAD_LENGTH,
    UnknownRate = POSEIDON_ERROR_UNKNOWN_RATE,
    HopLimit = POSEIDON_ERROR_HOP_LIMIT,
    NoSpace = POSEIDON_ERROR_NO_SPACE,
    Incomplete = POSEIDON_ERROR_INCOMPLETE,
    Format = POSEIDON_ERROR_FORMAT,
}

impl Failure {
    /// Returns the code that C sees.
    #[inline]
    pub(crate) const fn code(self) -> poseidon_status {
        self as poseidon_status
    }

    /// Returns the reason with this code.
    const fn from_code(code: poseidon_status) -> Option<Self> {
        Some(match code {
            POSEIDON_ERROR_NULL_POINTER => Self::NullPointer,
            POSEIDON_ERROR_MISALIGNED => Self::Misaligned,
            POSEIDON_ERROR_STRUCT_TOO_SMALL => Self::StructTooSmall,
            POSEIDON_ERROR_STRUCT_TOO_NEW => Self::StructTooNew,
            POSEIDON_ERROR_STATE_TOO_SMALL => Self::StateTooSmall,
            POSEIDON_ERROR_NOT_INITIALISED => Self::NotInitialised,
            POSEIDON_ERROR_TEXT => Self::Text,
            POSEIDON_ERROR_UNKNOWN_NAME => Self::UnknownName,
            POSEIDON_ERROR_SYNTAX => Self::Syntax,
            POSEIDON_ERROR_VALUE => Self::Value,
            POSEIDON_ERROR_RANGE => Self::Range,
            POSEIDON_ERROR_PATH => Self::Path,
            POSEIDON_ERROR_MISSING_SIGNALS => Self::MissingSignals,
            POSEIDON_ERROR_UNKNOWN_FLAGS => Self::UnknownFlags,
            POSEIDON_ERROR_TOO_MANY_HOPS => Self::TooManyHops,
            POSEIDON_ERROR_TRUNCATED => Self::Truncated,
            POSEIDON_ERROR_BAD_VERSION => Self::BadVersion,
            POSEIDON_ERROR_BAD_KIND => Self::BadKind,
            POSEIDON_ERROR_BAD_IDENTIFIER => Self::BadIdentifier,
            POSEIDON_ERROR_BAD_LENGTH => Self::BadLength,
            POSEIDON_ERROR_UNKNOWN_RATE => Self::UnknownRate,
            POSEIDON_ERROR_HOP_LIMIT => Self::HopLimit,
            POSEIDON_ERROR_NO_SPACE => Self::NoSpace,
            POSEIDON_ERROR_INCOMPLETE => Self::Incomplete,
            POSEIDON_ERROR_FORMAT => Self::Format,
            _ => return None,
        })
    }

    /// Returns a description with advice.
    const fn text(self) -> &'static CStr {
        match self {
            Self::NullPointer => c"a pointer is null",
            Self::Misaligned => c"a pointer is not aligned for its type",
            Self::StructTooSmall => c"struct_size is too small: set it to sizeof of the struct",
            Self::StructTooNew => {
                c"the struct has fields that this library does not know: set them to zero or use a newer library"
            }
            Self::StateTooSmall => c"the memory for the state is too small: see poseidon_law_size",
            Self::NotInitialised => c"the state is not initialised, or was initialised by another library version",
            Self::Text => c"a text is longer than 4096 bytes or not UTF-8",
            Self::UnknownName => c"there is no law, parameter or preset with this name or index",
            Self::Syntax => c"parameters are a list of name=value, separated by commas",
            Self::Value => c"a value is not valid for its parameter",
            Self::Range => c"a parameter is outside its range",
            Self::Path => c"the path is outside the range that laws support",
            Self::MissingSignals => c"the law needs a signal that the host does not supply",
            Self::UnknownFlags => c"a set of flags has a bit that this library does not know",
            Self::TooManyHops => c"there are too many hop records",
            Self::Truncated => c"the buffer is shorter than the header",
            Self::BadVersion => c"the header's version is not supported",
            Self::BadKind => c"the header's kind does not match",
            Self::BadIdentifier => c"the header's experiment identifier does not match",
            Self::BadLength => c"a length in the header contradicts the rest of the header",
            Self::UnknownRate => c"the rate table does not contain this rate",
            Self::HopLimit => c"the packet has reached its limit of hops",
            Self::NoSpace => c"the hop's data does not fit in the packet",
            Self::Incomplete => c"a hop's record is incomplete or the rate of its port is unknown",
            Self::Format => c"the telemetry format rejects the input",
        }
    }
}

/// Returns a description of a status. The text is never null and ends with a zero byte.
pub(crate) const fn status_text(code: poseidon_status) -> &'static CStr {
    match Failure::from_code(code) {
        Some(failure) => failure.text(),
        None if code >= 0 => c"success",
        None => c"this library does not know this error code",
    }
}

impl From<poseidon_wire::Error> for Failure {
    fn from(error: poseidon_wire::Error) -> Self {
        use poseidon_wire::Error;
        match error {
            Error::Truncated { .. } => Self::Truncated,
            Error::BadVersion { .. } => Self::BadVersion,
            Error::BadKind { .. } => Self::BadKind,
            Error::BadIdentifier { .. } => Self::BadIdentifier,
            Error::BadLength { .. } => Self::BadLength,
            Error::TooManyHops { .. } => Self::TooManyHops,
            Error::UnknownRate { .. } | Error::UnknownRateCode { .. } => Self::UnknownRate,
            _ => Self::Format,
        }
    }
}

/// A failure with its position in the parameters and a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) failure: Failure,
    /// The first byte and the number of bytes of the parameters that caused the failure.
    pub(crate) place: Place,
    /// The cause and the remedy.
    pub(crate) message: Message<240>,
}

/// A range of bytes in the text of the parameters. Both numbers are zero if the text did not cause the failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) position: u32,
    pub(crate) length: u32,
}

impl Report {
    /// Creates a report without a message.
    pub(crate) const fn empty(failure: Failure, place: Place) -> Self {
        Self { failure, place, message: Message::EMPTY }
    }

    /// Creates a report with a formatted message.
    pub(crate) fn new(failure: Failure, place: Place, message: Arguments<'_>) -> Self {
        Self { failure, place, message: Message::format(message) }
    }

    /// Creates a report whose message is the value's text.
    pub(crate) fn display(failure: Failure, place: Place, value: &dyn Display) -> Self {
        Self::new(failure, place, format_args!("{value}"))
    }
}

impl From<Failure> for Report {
    fn from(failure: Failure) -> Self {
        let mut report = Self::empty(failure, Place::default());
        report.message.push(failure.text().to_bytes());
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_its_own_text() {
        let mut texts = BTreeSet::new();
        for code in (-25..0).rev() {
            let failure = Failure::from_code(code).expect("the codes are consecutive");
            assert_eq!(failure.code(), code);
            assert!(texts.insert(status_text(code)), "{code} has the text of another code");
        }
        assert_eq!(status_text(0), c"success");
        assert_eq!(status_text(1), c"success");
        assert_eq!(status_text(-26), status_text(i32::MIN));
    }

    #[test]
    fn text_limit_is_the_one_in_the_message() {
        assert_eq!(crate::structs::POSEIDON_MAX_TEXT, 4096);
    }
}
