//! The files beside a report that a study's section links to.

use super::html::encode_path;
use crate::report::StudyReport;
use std::fs;
use std::path::Path;

/// The file types that a section links to.
const EXTENSIONS: [&str; 7] = ["svg", "pdf", "png", "csv", "toml", "json", "html"];

/// A link to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLink {
    pub(super) name: String,
    pub(super) href: String,
}

/// The files in a study's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StudyFiles {
    /// Figures, tables, the scenario and the verdicts.
    pub(super) files: Vec<FileLink>,
    /// Pages that show the network of a cell: `map-CELL.html`.
    pub(super) maps: Vec<FileLink>,
}

impl StudyFiles {
    /// Finds the files of a study. `page_folder` is the folder of the page, and `study_folder` is the folder of the
    /// study, relative to it. A study without a folder has no files.
    pub(super) fn find(page_folder: &Path, study_folder: &str) -> Self {
        let folder = page_folder.join(study_folder);
        let mut names: Vec<String> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_by_key(|name| crate::study::natural_order(name));
        let mut found = Self::default();
        for name in names {
            let extension = name.rsplit('.').next().unwrap_or_default();
            let path = if study_folder.is_empty() { name.clone() } else { format!("{study_folder}/{name}") };
            let href = encode_path(&path);
            let map = name.strip_prefix("map-").and_then(|rest| rest.strip_suffix(".html"));
            match map {
                Some(cell) => found.maps.push(FileLink { name: cell.to_owned(), href }),
                None if name.starts_with("report") || !EXTENSIONS.contains(&extension) => {}
                None => found.files.push(FileLink { name, href }),
            }
        }
        found
    }
}

/// Returns the command that runs a study again.
pub(super) fn command(report: &StudyReport) -> String {
    // A study in a folder is built in and has a name. Other studies are files, and the page offers their text.
    let scenario =
        if report.name.contains('/') { report.name.clone() } else { format!("{}.toml", report.name) };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let scenario = match scenario.chars().all(is_plain) && !scenario.starts_with('-') {
        true => scenario,
        false => format!("'./{}'", scenario.replace('\'', "'\\''")),
    };
    let provenance = report.provenance.as_ref();
    let is_quick = report.omissions.is_some() || provenance.is_some_and(|provenance| provenance.quick);
    let is_on_linux = provenance.is_some_and(|provenance| provenance.on_linux);
    let options = [(is_quick, " --quick"), (is_on_linux, " --on linux")];
    let options = options.into_iter().filter(|option| option.0).map(|option| option.1);
    format!("poseidon run {scenario}{}", options.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::tests::report;

    #[test]
    fn commands_are_safe_to_paste() {
        let command_of = |name: &str| command(&report(name, "t"));
        assert_eq!(command_of("poseidon/fig14b"), "poseidon run poseidon/fig14b");
        assert_eq!(command_of("own"), "poseidon run own.toml");
        assert_eq!(command_of("a b"), "poseidon run './a b.toml'");
        assert_eq!(command_of("x'; rm -rf ~"), "poseidon run './x'\\''; rm -rf ~.toml'");
        let quick = StudyReport { omissions: Some("2 of 10 seeds".into()), ..report("own", "t") };
        assert_eq!(command(&quick), "poseidon run own.toml --quick");
    }
}
