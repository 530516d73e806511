//! Finds scenarios and laws by name.

use crate::Failure;
use poseidon_lab::report::Paper;
use poseidon_lab::study::{Study, natural_order};
use poseidon_laws::{AnyParams, LAWS};
use std::io::Read as _;

/// The name and text of every built-in scenario.
pub(crate) const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// The papers with scenarios, and their conclusions.
pub(crate) const PAPERS: &[Paper<'static>] = include!(concat!(env!("OUT_DIR"), "/papers.rs"));

/// The name of standard input on the command line.
pub(crate) const STDIN: &str = "-";

/// The largest scenario that is read from standard input.
const MAX_STDIN: u64 = 16 << 20;

/// Reads a scenario from standard input. The study is called `stdin`.
fn read_stdin(quick: bool) -> Result<Study, Failure> {
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock().take(MAX_STDIN + 1).read_to_end(&mut bytes);
    input.map_err(Failure::file("standard input".as_ref()))?;
    if bytes.len() as u64 > MAX_STDIN {
        return Err(Failure::Usage("the scenario on standard input has more than 16 MiB; shorten it".into()));
    }
    Ok(Study::read_bytes("stdin", &bytes, quick)?)
}

/// Reads a scenario from a file or from standard input, or finds a built-in scenario by its full name or the last part
/// of its name.
pub(crate) fn find_study(name: &str, quick: bool) -> Result<Study, Failure> {
    if name == STDIN {
        return read_stdin(quick);
    }
    if std::path::Path::new(name).is_file() {
        let bytes = std::fs::read(name).map_err(Failure::file(name.as_ref()))?;
        return Ok(Study::read_bytes(name, &bytes, quick)?);
    }
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let stem = stem.strip_prefix("scenarios/").unwrap_or(stem);
    let matches = |name: &str| name == stem || name.rsplit('/').next() == Some(stem);
    let mut candidates = SCENARIOS.iter().filter(|(name, _)| matches(name));
    match (candidates.next(), candidates.next()) {
        (Some((name, text)), None) => Ok(Study::read(&format!("scenarios/{name}.toml"), text, quick)?),
        (Some((first, _)), Some((second, _))) => Err(Failure::Usage(format!(
            "{name:?} is ambiguous: {first:?} or {second:?}; write the full name"
        ))),
        _ => Err(Failure::Usage(format!(
            "there is no file or scenario {name:?}; `poseidon scenarios` lists the built-in scenarios"
        ))),
    }
}

/// Finds scenarios like [`find_study`]. The name of a folder stands for all its built-in scenarios.
pub(crate) fn find_studies(names: &[String], quick: bool) -> Result<Vec<Study>, Failure> {
    let mut studies = Vec::new();
    for name in names {
        if is_folder(name) && !std::path::Path::new(name).is_file() {
            studies.extend(studies_of_papers(core::slice::from_ref(name), false, &[], quick)?);
        } else {
            studies.push(find_study(name, quick)?);
        }
    }
    Ok(studies)
}

/// Returns a study with these laws, or the study as it is if there are none.
pub(crate) fn with_laws(study: Study, laws: &[String]) -> Result<Study, Failure> {
    if laws.is_empty() {
        return Ok(study);
    }
    let laws: Vec<&str> = laws.iter().map(String::as_str).collect();
    Ok(study.with_laws(&laws)?)
}

/// Returns whether this is the name of a folder of built-in scenarios.
fn is_folder(name: &str) -> bool {
    SCENARIOS.iter().any(|(scenario, _)| scenario.split_once('/').is_some_and(|(folder, _)| folder == name))
}

/// Returns the default parameters of a law.
pub(crate) fn law_defaults(name: &str) -> Result<AnyParams, Failure> {
    AnyParams::for_law(name).ok_or_else(|| {
        let known: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
        Failure::Usage(format!("there is no law {name:?}; there are {}", known.join(", ")))
    })
}

/// The folders that `--all` excludes: comparisons with another simulator, claims that need real packets, scenarios of
/// `poseidon rollout`, which have no claims, and the scenario suite, whose claims grade laws and come from no paper.
const EXCLUDED_FROM_ALL: [&str; 4] = ["ai", "linux", "rollout", "suite"];

/// Returns the studies of the named papers, or of all papers.
pub(crate) fn studies_of_papers(
    papers: &[String],
    all: bool,
    only: &[String],
    quick: bool,
) -> Result<Vec<Study>, Failure> {
    for paper in papers {
        if !is_folder(paper) {
            let mut known: Vec<&str> =
                SCENARIOS.iter().filter_map(|(name, _)| Some(name.split_once('/')?.0)).collect();
            known.dedup();
            return Err(Failure::Usage(format!(
                "there is no paper {paper:?}; there are {}",
                known.join(", ")
            )));
        }
    }
    if papers.is_empty() && !all {
        return Err(Failure::Usage("name a paper, such as `poseidon repro poseidon`, or --all".into()));
    }
    let is_selected = |name: &str| {
        let paper = name.split_once('/').map(|(paper, _)| paper);
        let is_paper_selected = paper.is_some_and(|paper| {
            all && !EXCLUDED_FROM_ALL.contains(&paper) || papers.iter().any(|requested| requested == paper)
        });
        is_paper_selected && (only.is_empty() || only.iter().any(|text| name.contains(text.as_str())))
    };
    let mut selected: Vec<_> = SCENARIOS.iter().filter(|(name, _)| is_selected(name)).collect();
    if selected.is_empty() {
        return Err(Failure::Usage(format!(
            "no scenario name contains {}; `poseidon scenarios` lists all names",
            only.join(" or ")
        )));
    }
    selected.sort_by_key(|(name, _)| natural_order(name));
    let read = |(name, text): &(&str, &str)| Ok(Study::read(&format!("scenarios/{name}.toml"), text, quick)?);
    selected.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(papers: &[String], all: bool) -> Vec<String> {
        let studies =
            studies_of_papers(papers, all, &[], true).unwrap_or_else(|failure| panic!("{failure:?}"));
        studies.into_iter().map(|study| study.name).collect()
    }

    #[test]
    fn all_papers_exclude_other_simulators_real_packets_rollouts_and_the_suite() {
        let all = names(&[], true);
        assert!(all.iter().any(|name| name == "poseidon/fig14b"), "{all:?}");
        let is_excluded = |name: &String| {
            ["ai/", "linux/", "rollout/", "suite/"].iter().any(|folder| name.starts_with(folder))
        };
        assert!(!all.iter().any(is_excluded), "{all:?}");
        assert!(names(&["linux".to_owned()], false).iter().any(|name| name == "linux/fig12"));
    }

    #[test]
    fn a_folder_stands_for_its_scenarios() {
        let find = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let studies = find_studies(&names, true).unwrap_or_else(|failure| panic!("{failure:?}"));
            studies.into_iter().map(|study| study.name).collect::<Vec<_>>()
        };
        assert_eq!(find(&["suite"]).len(), 16);
        assert_eq!(find(&["suite/incast", "fig14b"]), ["suite/incast", "poseidon/fig14b"]);
    }
}
