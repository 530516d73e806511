//! Merges results folders, for example those of machines without a shared file system.

use crate::manifest::Manifest;
use crate::store::{SCENARIO_FILE, Store, StoreError, read_manifest, read_summary, write_file};
use crate::study::natural_order;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What a merge did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// The studies of the merged folders.
    pub studies: Vec<String>,
    /// The runs that were copied.
    pub copied: usize,
    /// The runs that the target already had.
    pub present: usize,
    /// The folders without a complete and readable run, which were not copied.
    pub incomplete: usize,
    /// The studies whose scenario differs between the folders. The scenario of the target stays.
    pub other_scenarios: Vec<String>,
}

/// An error of a merge.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A folder has no results.
    #[error("{} has no results; name the folder that `poseidon run -o` wrote", .0.display())]
    NoResults(PathBuf),
    /// The same program computed different results for the same plan.
    #[error(
        "{} and {} have the same plan and program, but different results ({first} and {second}); nothing can be \
         merged until the wrong one is removed",
        .first_folder.display(), .second_folder.display()
    )]
    Different {
        /// The run's folder in the target.
        first_folder: PathBuf,
        /// The run's folder in the source.
        second_folder: PathBuf,
        /// The hash of the result in the target.
        first: String,
        /// The hash of the result in the source.
        second: String,
    },
}

/// Copies the complete runs of `source` that `target` does not have. Files are copied under temporary names, and the
/// manifest last, so the target is valid at any time.
pub fn merge(target: &Store, source: &Store, report: &mut MergeReport) -> Result<(), MergeError> {
    let mut names = source.studies_with(SCENARIO_FILE)?;
    if names.is_empty() {
        return Err(MergeError::NoResults(source.root().to_owned()));
    }
    names.sort_by_key(|name| natural_order(name));
    for name in names {
        merge_scenario(target, source, &name, report)?;
        let runs = source.map_runs(&name, |folder| Some(folder.to_owned()))?;
        for folder in runs {
            merge_run(target, &name, &folder, report)?;
        }
        if !report.studies.contains(&name) {
            report.studies.push(name);
        }
    }
    Ok(())
}

fn merge_scenario(
    target: &Store,
    source: &Store,
    name: &str,
    report: &mut MergeReport,
) -> Result<(), MergeError> {
    let path = source.study_folder(name).join(SCENARIO_FILE);
    let text = fs::read(&path).map_err(StoreError::io(&path))?;
    let folder = target.study_folder(name);
    match fs::read(folder.join(SCENARIO_FILE)) {
        Ok(other) if other == text => {}
        Ok(_) if report.other_scenarios.iter().any(|other| other == name) => {}
        Ok(_) => report.other_scenarios.push(name.to_owned()),
        Err(_) => write_file(&folder, SCENARIO_FILE, &text)?,
    }
    Ok(())
}

fn merge_run(target: &Store, study: &str, source: &Path, report: &mut MergeReport) -> Result<(), MergeError> {
    let is_complete = |manifest: &Manifest| !manifest.interrupted;
    // A torn file is that of a machine that stopped.
    let is_whole = |manifest: &Manifest| is_complete(manifest) && read_summary(source).is_ok();
    let Some(manifest) = read_manifest(source).ok().flatten().filter(is_whole) else {
        report.incomplete += 1;
        return Ok(());
    };
    let folder = target.run_folder(study, &manifest.run_name());
    if let Some(present) = read_manifest(&folder).ok().flatten().filter(is_complete) {
        if present.result_hash != manifest.result_hash {
            return Err(MergeError::Different {
                first_folder: folder,
                second_folder: source.to_owned(),
                first: present.result_hash,
                second: manifest.result_hash,
            });
        }
        let new: Vec<_> = manifest
            .requests()
            .filter(|request| !present.requests().any(|known| known == *request))
            .collect();
        if !new.is_empty() {
            let mut merged = present;
            merged.other_requests.extend(new);
            target.write_manifest(study, &merged)?;
        }
        report.present += 1;
        return Ok(());
    }
    let entries = fs::read_dir(source).map_err(StoreError::io(source))?;
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // Names of temporary files begin with a dot.
        if name.starts_with('.') || name == "manifest.json" || !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).map_err(StoreError::io(&path))?;
        write_file(&folder, &name, &bytes)?;
    }
    target.write_manifest(study, &manifest)?;
    report.copied += 1;
    Ok(())
}
