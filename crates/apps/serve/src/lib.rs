//! `poseidon serve`: a local lab in the browser.
//!
//! ```text
//! browser ──GET /──────────────> page.rs      the page: an editor, plots and tables, without a framework
//!         ──POST /api/check────> scenario.rs  parses and resolves a text: errors with lines, sweeps, cost
//!         ──POST /api/runs─────> session.rs   a queue of jobs; one job runs at a time
//!         <─/api/runs/N/events── events.rs    server-sent events: progress and live points of a job
//!         ──GET /files/KEY/…───> files.rs     everything that `poseidon run` writes, as files or as a zip archive
//! ```
//!
//! The server listens on 127.0.0.1 only. `guard.rs` checks the `Host` and `Origin` headers of every request. Requests
//! to the API need a random token in the `Authorization` header. The token is in the fragment of the printed URL, which
//! browsers do not send. The page reads event streams with `fetch`, which can set headers. So there is no cookie, which
//! other servers on 127.0.0.1 would receive, and no token in a query, which would appear in logs.

mod api;
mod error;
mod events;
mod files;
mod guard;
mod job;
mod live;
mod open;
mod page;
mod progress;
mod results;
mod runner;
mod scenario;
mod series;
mod server;
mod session;
mod zip;

pub use error::ServeError;
pub use open::{RedirectFile, open_browser};
pub use server::{Server, ServerEnd, StopHandle};

use poseidon_lab::budget::Limits;
use poseidon_lab::manifest::Program;
use poseidon_plan::Backend;
use std::path::PathBuf;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The TCP port; zero selects a free port.
    pub port: u16,
    /// The results folder.
    pub output: PathBuf,
    /// The folder of the files that scenarios may name. Other files are rejected.
    pub input: PathBuf,
    /// The limits on the runs of one job.
    pub limits: Limits,
    /// The number of parallel runs of a job.
    pub jobs: usize,
    /// The scenario that the page shows first.
    pub first: OpenScenario,
}

/// A scenario in the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenScenario {
    /// The name, without a folder and without the extension.
    pub name: String,
    /// The text.
    pub text: String,
}

/// What the server needs from the program that contains it.
pub struct Environment {
    /// The backend that runs the scenarios.
    pub backend: Box<dyn Backend + Send + Sync>,
    /// The name and the text of each built-in scenario.
    pub scenarios: &'static [(&'static str, &'static str)],
    /// The program that executes the runs.
    pub program: Program,
}

impl core::fmt::Debug for Environment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Environment").field("program", &self.program).finish_non_exhaustive()
    }
}
