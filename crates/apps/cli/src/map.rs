//! Draws the map of a run: `poseidon run X --map`.

use crate::Failure;
use crate::backend::{self, simulator};
use crate::backend_kind::BackendKind;
use core::ops::Range;
use poseidon_lab::budget::short_bytes;
use poseidon_lab::judge::cell_name;
use poseidon_lab::map::{MapError, MapRun, file_name, record_map};
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::scenario::Cell;
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use poseidon_types::{Bytes, Picos};
use std::fs;

/// Runs a cell again with samples of all ports, and writes its map into the folder of the study. Returns a line about
/// the file.
pub(crate) fn write(
    study: &Study,
    cell: &Cell,
    resolved: &ResolvedRun,
    seed: u64,
    window: Range<Picos>,
    store: &Store,
) -> Result<String, Failure> {
    let cell_name = cell_name(&cell.labels);
    let program = backend::identity(BackendKind::Sim);
    let run =
        MapRun { study: &study.name, title: &cell.scenario.title, cell: &cell_name, seed, program: &program };
    // A run can end long before its limit. The steps of the map then are shorter.
    let ended = stored_end(study, cell, seed, store);
    let window = window.start..window.end.min(ended.unwrap_or(Picos::MAX));
    if window.is_empty() {
        let (from, end) = (window.start, window.end);
        return Err(Failure::Usage(format!(
            "the window of the map begins at {from}, but the run ends at {end}"
        )));
    }
    let page = record_map(&run, resolved, window, &simulator())?;
    let folder = store.study_folder(&study.name);
    let path = folder.join(file_name(&cell_name, seed));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, &page)).map_err(Failure::file(&path))?;
    let size = short_bytes(Bytes::new(page.len() as u64));
    Ok(format!("map {} ({size})", path.display()))
}

/// Returns when the stored run of a cell ended.
fn stored_end(study: &Study, cell: &Cell, seed: u64, store: &Store) -> Option<Picos> {
    let runs = store.load_runs(0, study, &backend::identity(BackendKind::Sim)).ok()?;
    let run = runs.iter().find(|run| *run.run.labels == *cell.labels && run.run.seed == seed)?;
    let ended = run.manifest.counters.number("ended_ps").filter(|ended| *ended > 0)?;
    (!run.manifest.interrupted).then(|| Picos::new(ended))
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Self {
        Self::Run(error.to_string())
    }
}
