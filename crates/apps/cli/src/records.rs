//! The option `--records`.

use clap::ValueEnum;
use poseidon_lab::tables::Format;

/// The format of stored rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Records {
    /// Parquet files.
    Parquet,
    /// CSV files.
    Csv,
    /// No rows, only summaries.
    None,
}

impl Records {
    /// The value of the option.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::None => "none",
        }
    }

    pub(crate) const fn format(self) -> Option<Format> {
        match self {
            Self::Parquet => Some(Format::Parquet),
            Self::Csv => Some(Format::Csv),
            Self::None => None,
        }
    }
}
