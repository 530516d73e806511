//! The HTML pages of a report. They are self-contained and load nothing from the network.
//!
//! A small report is one page. Above [`MAX_PAGE_BYTES`], the report is an opening page and one page per paper, and a
//! paper above the limit has one page per study. Figures are SVG, which also prints and works without the script. The
//! script shows time series as interactive plots and adds filters, values under the pointer, and downloads.

mod answer;
mod card;
mod data;
mod document;
mod files;
mod html;
mod outcome;
mod overview;
mod section;
mod site;

pub use card::render_card;
pub use site::Paper;

use super::{ReportError, StudyReport};
use crate::store::{StoreError, write_file};
use document::{GENERATOR, PageContent, render};
use files::StudyFiles;
use html::slug;
use site::{OPENING_PAGE, Site, unique};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The largest page, in bytes, unless a single study needs more.
pub const MAX_PAGE_BYTES: usize = 3_000_000;

/// A page of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The file name.
    pub file: String,
    /// The HTML text.
    pub html: String,
}

/// Writes the reports as HTML pages and returns the path of the opening page. `folder` contains one folder per study.
/// Removes pages of an earlier report that no longer exist.
pub fn write_page(
    reports: &[StudyReport],
    folder: &Path,
    papers: &[Paper<'_>],
    program: &str,
) -> Result<PathBuf, ReportError> {
    let files = reports.iter().map(|report| StudyFiles::find(folder, &report.name)).collect();
    write_pages(folder, &render_site(Site::new(reports, papers, files, program), MAX_PAGE_BYTES))
}

/// Writes the report of one study into the study's folder and returns the path of the page.
pub fn write_study_page(
    report: &StudyReport,
    study_folder: &Path,
    program: &str,
) -> Result<PathBuf, ReportError> {
    let reports = core::slice::from_ref(report);
    let files = vec![StudyFiles::find(study_folder, "")];
    write_pages(study_folder, &render_site(Site::new(reports, &[], files, program), MAX_PAGE_BYTES))
}

/// Renders the reports as HTML pages, the opening page first. The pages have no links to other files.
pub fn render_pages(reports: &[StudyReport], papers: &[Paper<'_>], program: &str) -> Vec<Page> {
    let files = vec![StudyFiles::default(); reports.len()];
    render_site(Site::new(reports, papers, files, program), MAX_PAGE_BYTES)
}

/// Renders the pages of a site. Splits pages that exceed `max_bytes`.
fn render_site(mut site: Site<'_>, max_bytes: usize) -> Vec<Page> {
    let all: Vec<usize> = (0..site.reports.len()).collect();
    let page = |content: &PageContent<'_>, site: &Site<'_>| Page {
        file: content.file.to_owned(),
        html: render(site, content),
    };
    // Rendering takes time, so a page that is certainly too large is not rendered.
    if all.len() < 2 || site.svg_bytes() <= max_bytes {
        let single =
            page(&PageContent { file: OPENING_PAGE, listed: &all, shown: &all, parent: None }, &site);
        if single.html.len() <= max_bytes || all.len() < 2 {
            return vec![single];
        }
    }
    let mut names = BTreeSet::new();
    let mut file_name =
        |name: &str| unique(&format!("report-{}", slug(name).replace('/', "-")), &mut names) + ".html";
    let groups: Vec<(String, Vec<usize>)> =
        site.groups.iter().map(|group| (file_name(&group.key), group.studies.clone())).collect();
    let parent = Some((OPENING_PAGE, "Overview"));
    let mut pages = Vec::new();
    for (file, studies) in &groups {
        studies.iter().for_each(|study| site.places[*study].file.clone_from(file));
        let paper_page = page(&PageContent { file, listed: studies, shown: studies, parent }, &site);
        if paper_page.html.len() <= max_bytes || studies.len() == 1 {
            pages.push(paper_page);
            continue;
        }
        for study in studies {
            site.places[*study].file = file_name(&site.places[*study].id);
        }
        pages.push(page(&PageContent { file, listed: studies, shown: &[], parent }, &site));
        let title = site.title(studies);
        for &study in studies {
            let (study_file, parent) = (&site.places[study].file, Some((file.as_str(), title.as_str())));
            pages.push(page(
                &PageContent { file: study_file, listed: &[study], shown: &[study], parent },
                &site,
            ));
        }
    }
    // The opening page links to all others, so it comes last.
    let opening = page(&PageContent { file: OPENING_PAGE, listed: &all, shown: &[], parent: None }, &site);
    pages.insert(0, opening);
    pages
}

/// Writes pages into a folder and removes the pages of an earlier report.
fn write_pages(folder: &Path, pages: &[Page]) -> Result<PathBuf, ReportError> {
    for page in pages {
        write_file(folder, &page.file, page.html.as_bytes())?;
    }
    for entry in fs::read_dir(folder).map_err(StoreError::io(folder))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_candidate = name.starts_with("report-") && name.ends_with(".html");
        if is_candidate && pages.iter().all(|page| page.file != name) && is_generated(&entry.path()) {
            fs::remove_file(entry.path()).map_err(StoreError::io(&entry.path()))?;
        }
    }
    Ok(folder.join(OPENING_PAGE))
}

/// Returns whether a file is a page of a report.
fn is_generated(file: &Path) -> bool {
    /// The generator tag is among the first bytes of a page.
    const HEAD_BYTES: u64 = 4096;
    let mut head = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let tag = format!("<meta name=\"generator\" content=\"{GENERATOR}\">");
    read.is_ok() && String::from_utf8_lossy(&head).contains(&tag)
}

#[cfg(test)]
pub(super) mod tests;
