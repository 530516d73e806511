//! Exchanges scenarios with other simulators: writes scenarios for their files, and flow files for their programs.

mod export;
mod import;
mod recognise;

pub use export::{ExportError, ExportFormat, flow_file, write_flow_file};
pub use import::{ImportError, ImportOptions, ImportedFile, import_scenario};
pub use recognise::{FileKind, recognise_file};
