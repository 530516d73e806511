//! The studies of a report, their papers, and the page on which each study is shown.

use super::files::StudyFiles;
use super::html::{plural, slug};
use crate::report::StudyReport;
use std::collections::BTreeSet;

/// The file name of the opening page.
pub(crate) const OPENING_PAGE: &str = "report.html";

/// The ids of the other parts of a page.
const RESERVED_IDS: [&str; 6] = ["title", "main", "verdicts", "claims", "contents-list", "report-data"];

/// A reproduced paper and its conclusions.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    /// The folder that contains the paper's studies.
    pub folder: &'a str,
    /// The Markdown text: a title on the first line, followed by paragraphs.
    pub text: &'a str,
}

impl<'a> Paper<'a> {
    /// Returns the title.
    fn title(&self) -> &'a str {
        self.text.lines().next().unwrap_or(self.folder).trim_start_matches(['#', ' '])
    }

    /// Returns the paragraphs of the conclusions.
    pub(super) fn paragraphs(&self) -> impl Iterator<Item = &'a str> {
        self.text.split("\n\n").skip(1).map(str::trim).filter(|text| !text.is_empty())
    }
}

/// The studies of one paper or folder.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    /// The folder in the names of the studies; empty for studies without a folder.
    folder: String,
    /// The value in filters.
    pub(super) key: String,
    pub(super) title: String,
    pub(super) paper: Option<&'a Paper<'a>>,
    /// The indices of the studies.
    pub(super) studies: Vec<usize>,
}

/// Where a study is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file name of the page.
    pub(super) file: String,
    /// The id of the study's section, which is unique in all pages.
    pub(super) id: String,
}

/// All studies of a report.
pub(super) struct Site<'a> {
    pub(super) reports: &'a [StudyReport],
    pub(super) groups: Vec<Group<'a>>,
    /// The place of each study.
    pub(super) places: Vec<Place>,
    /// The files of each study.
    pub(super) files: Vec<StudyFiles>,
    /// The program that made the results.
    pub(super) program: &'a str,
}

impl<'a> Site<'a> {
    /// Creates a site with all studies on one page.
    pub(super) fn new(
        reports: &'a [StudyReport],
        papers: &'a [Paper<'a>],
        files: Vec<StudyFiles>,
        program: &'a str,
    ) -> Self {
        let mut ids: BTreeSet<String> = RESERVED_IDS.map(str::to_owned).into_iter().collect();
        let place = |report: &StudyReport| {
            let id = unique(&slug(&report.name), &mut ids);
            Place { file: OPENING_PAGE.to_owned(), id }
        };
        Self {
            reports,
            groups: groups(reports, papers),
            places: reports.iter().map(place).collect(),
            files,
            program,
        }
    }

    /// Returns the size of all figures.
    pub(super) fn svg_bytes(&self) -> usize {
        self.reports.iter().flat_map(|report| &report.svg_figures).map(String::len).sum()
    }

    /// Returns the group of a study.
    pub(super) fn group_of(&self, study: usize) -> &Group<'a> {
        let group = self.groups.iter().find(|group| group.studies.contains(&study));
        group.expect("every study is in a group")
    }

    /// Returns the link from a page to a study, or to a part of its section.
    pub(super) fn link(&self, from: &str, study: usize, part: &str) -> String {
        let Place { file, id } = &self.places[study];
        if file == from { format!("#{id}{part}") } else { format!("{file}#{id}{part}") }
    }

    /// Returns the title of a page with these studies. It comes from the study or from the papers.
    pub(super) fn title(&self, studies: &[usize]) -> String {
        if let [study] = studies {
            return self.reports[*study].title.clone();
        }
        let shown = |group: &&Group<'_>| group.studies.iter().any(|study| studies.contains(study));
        let mut groups: Vec<&Group<'_>> = self.groups.iter().filter(shown).collect();
        // The papers with most claims characterise a report.
        let claims = |group: &&Group<'_>| {
            group.studies.iter().map(|study| self.reports[*study].verdicts.len()).sum::<usize>()
        };
        groups.sort_by_key(|group| core::cmp::Reverse(claims(group)));
        let titles: Vec<String> = match groups.as_slice() {
            [group] if group.paper.is_some() => return group.title.clone(),
            // A folder name says less than the titles of the studies.
            [_] => studies.iter().map(|study| self.reports[*study].title.clone()).collect(),
            groups => groups.iter().map(|group| short_title(&group.title).to_owned()).collect(),
        };
        match titles.len() {
            0 => "No studies".to_owned(),
            1..=3 => titles.join("; "),
            count => format!("{}; and {} more", titles[..3].join("; "), count - 3),
        }
    }
}

/// Returns a paper's title without the authors in parentheses.
fn short_title(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

/// Groups studies by the folder in their name. Papers come first, in the order of their first study.
fn groups<'a>(reports: &[StudyReport], papers: &'a [Paper<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut keys = BTreeSet::new();
    for (index, report) in reports.iter().enumerate() {
        let folder = report.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let paper = papers.iter().find(|paper| paper.folder == folder);
        let title = match (paper, folder) {
            (Some(paper), _) => paper.title().to_owned(),
            (None, "") => "Other studies".to_owned(),
            (None, folder) => folder.to_owned(),
        };
        match groups.iter_mut().find(|group| group.folder == folder) {
            Some(group) => group.studies.push(index),
            None => {
                let key = unique(
                    &slug(if folder.is_empty() { "others" } else { folder }).replace('/', "-"),
                    &mut keys,
                );
                groups.push(Group { folder: folder.to_owned(), key, title, paper, studies: vec![index] });
            }
        }
    }
    groups
}

/// Returns a name that is not in the set yet, and adds it. Names that differ only in case are equal, because some file
/// systems do not distinguish them.
pub(super) fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let candidates = core::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
    let mut free = candidates.filter(|candidate| !taken.contains(&candidate.to_lowercase()));
    let chosen = free.next().unwrap_or_else(|| name.to_owned());
    drop(free);
    taken.insert(chosen.to_lowercase());
    chosen
}

/// Describes how many studies, claims and runs a page covers.
pub(super) fn extent(reports: &[&StudyReport]) -> String {
    let runs: usize = reports.iter().map(|report| report.runs).sum();
    let claims: usize = reports.iter().map(|report| report.verdicts.len()).sum();
    [plural(reports.len(), "study"), plural(claims, "claim"), plural(runs, "run")].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::tests::report;

    const PAPERS: [Paper<'static>; 2] = [
        Paper { folder: "hpcc", text: "# HPCC (Li et al., SIGCOMM 2019)\n\nFirst.\n\nSecond." },
        Paper { folder: "swift", text: "# Swift (Kumar et al.)\n" },
    ];

    fn title(names: &[&str]) -> String {
        let reports: Vec<StudyReport> =
            names.iter().map(|name| report(name, &format!("title of {name}"))).collect();
        let site = Site::new(&reports, &PAPERS, vec![StudyFiles::default(); reports.len()], "p");
        site.title(&(0..reports.len()).collect::<Vec<_>>())
    }

    #[test]
    fn titles_come_from_the_studies_and_papers() {
        assert_eq!(title(&["own"]), "title of own");
        assert_eq!(title(&["hpcc/fig1"]), "title of hpcc/fig1");
        assert_eq!(title(&["hpcc/fig1", "hpcc/fig2"]), "HPCC (Li et al., SIGCOMM 2019)");
        assert_eq!(title(&["hpcc/fig1", "swift/fig2"]), "HPCC; Swift");
        assert_eq!(title(&["a", "b", "c", "d", "e"]), "title of a; title of b; title of c; and 2 more");
        assert_eq!(title(&["mine/a", "mine/b"]), "title of mine/a; title of mine/b");
    }

    #[test]
    fn sections_and_pages_have_unique_names() {
        let reports = ["a b", "a-b", "A-B", "claims"].map(|name| report(name, "t"));
        let site = Site::new(&reports, &[], vec![StudyFiles::default(); 4], "p");
        let ids: Vec<&str> = site.places.iter().map(|place| place.id.as_str()).collect();
        assert_eq!(ids, ["a-b", "a-b-2", "A-B-3", "claims-2"]);
    }
}
