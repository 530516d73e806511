//! Exchanges scenarios with other simulators: writes scenarios for their files, and flow files for their programs.

mod export;
mod import;

pub use export::{ExportError, ExportFormat, flow_file, write_flow_file};
pub use import::{FileKind, ImportError, ImportOptions, ImportedFile, import_scenario, recognise_file};
