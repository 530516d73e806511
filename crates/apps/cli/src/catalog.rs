//! What has a name: scenarios, those that are built in and files, and laws.

use crate::Failure;
use poseidon_lab::report::Paper;
use poseidon_lab::study::Study;
use poseidon_laws::{AnyParams, LAWS};

/// Name and text of every scenario of the repository.
pub(crate) const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// The papers that have scenarios, and what to take from each.
pub(crate) const PAPERS: &[Paper<'static>] = include!(concat!(env!("OUT_DIR"), "/papers.rs"));

/// Reads a file, or a built-in scenario by its name or the end of it.
pub(crate) fn study(name: &str, quick: bool) -> Result<Study, Failure> {
    if std::path::Path::new(name).is_file() {
        let bytes = std::fs::read(name).map_err(|error| Failure::Run(format!("{name}: {error}")))?;
        return Study::read_bytes(name, &bytes, quick).map_err(Failure::Scenario);
    }
    let plain = name.strip_suffix(".toml").unwrap_or(name);
    let plain = plain.strip_prefix("scenarios/").unwrap_or(plain);
    let ends = |known: &str| known == plain || known.rsplit('/').next() == Some(plain);
    let mut found = SCENARIOS.iter().filter(|(known, _)| ends(known));
    match (found.next(), found.next()) {
        (Some((known, text)), None) => {
            Study::read(&format!("scenarios/{known}.toml"), text, quick).map_err(Failure::Scenario)
        }
        (Some((one, _)), Some((other, _))) => {
            Err(Failure::Usage(format!("{name:?} may be {one:?} or {other:?}; write the whole name")))
        }
        _ => Err(Failure::Usage(format!(
            "there is no file and no scenario {name:?}; `poseidon scenarios` lists those that are built in"
        ))),
    }
}

/// The defaults of a law.
pub(crate) fn law(name: &str) -> Result<AnyParams, Failure> {
    AnyParams::of(name).ok_or_else(|| {
        let known: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
        Failure::Usage(format!("there is no law {name:?}; there are {}", known.join(", ")))
    })
}

/// Scenarios whose claims are about real packets: no part of all that is reproduced, but they can be asked for by name.
const ON_REAL_PACKETS: &str = "linux";

/// The scenarios of papers, or all.
pub(crate) fn of_papers(
    papers: &[String],
    all: bool,
    only: &[String],
    quick: bool,
) -> Result<Vec<Study>, Failure> {
    for paper in papers {
        let folder = format!("{paper}/");
        if !SCENARIOS.iter().any(|(name, _)| name.starts_with(&folder)) {
            let mut known: Vec<&str> =
                SCENARIOS.iter().filter_map(|(name, _)| Some(name.split_once('/')?.0)).collect();
            known.dedup();
            return Err(Failure::Usage(format!(
                "there are no scenarios of {paper:?}; there are {}",
                known.join(", ")
            )));
        }
    }
    if papers.is_empty() && !all {
        return Err(Failure::Usage("name a paper, such as `poseidon repro poseidon`, or --all".into()));
    }
    let is_meant = |name: &str| {
        let paper = name.split_once('/').map(|(paper, _)| paper);
        let of_paper = paper.is_some_and(|paper| {
            all && paper != ON_REAL_PACKETS || papers.iter().any(|asked| asked == paper)
        });
        of_paper && (only.is_empty() || only.iter().any(|part| name.contains(part.as_str())))
    };
    let mut meant: Vec<_> = SCENARIOS.iter().filter(|(name, _)| is_meant(name)).collect();
    if meant.is_empty() {
        return Err(Failure::Usage(format!(
            "no scenario has {} in its name; `poseidon scenarios` lists all",
            only.join(" or ")
        )));
    }
    meant.sort_by_key(|(name, _)| natural(name));
    meant
        .into_iter()
        .map(|(name, text)| {
            Study::read(&format!("scenarios/{name}.toml"), text, quick).map_err(Failure::Scenario)
        })
        .collect()
}

/// `fig2` before `fig14b`: digits count as numbers, those of folders aside.
pub(crate) fn natural(name: &str) -> (String, String, u32, String) {
    let digits = |c: char| c.is_ascii_digit();
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let start = file.find(digits).unwrap_or(file.len());
    let rest = &file[start..];
    let end = rest.find(|c| !digits(c)).unwrap_or(rest.len());
    let number = rest[..end].parse().unwrap_or(0);
    (folder.to_owned(), file[..start].to_owned(), number, rest[end..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(papers: &[String], all: bool) -> Vec<String> {
        let studies = of_papers(papers, all, &[], true).unwrap_or_else(|failure| panic!("{failure:?}"));
        studies.into_iter().map(|study| study.name).collect()
    }

    #[test]
    fn all_that_is_reproduced_needs_no_real_packets() {
        let all = names(&[], true);
        assert!(all.iter().any(|name| name == "poseidon/fig14b"), "{all:?}");
        assert!(!all.iter().any(|name| name.starts_with("linux/")), "{all:?}");
        assert!(names(&["linux".to_owned()], false).iter().any(|name| name == "linux/fig12"));
    }
}
