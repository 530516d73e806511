//! The frame of a page: its head, table of contents, scripts and style sheets.

use super::data::{self, base64};
use super::html::{Escaped, push};
use super::outcome::{OUTCOMES, OutcomeCounts, class};
use super::overview::{push_claims, push_conclusions, push_filters, push_matrix};
use super::section::push_section;
use super::site::{Site, extent};
use crate::assets::{UPLOT_CSS, UPLOT_JS, UPLOT_LICENSE};
use crate::report::StudyReport;
use crate::report::format::outcome_word;
use poseidon_figures::DARK_COLOURS;
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("page.css");
const FILTERS: &str = include_str!("filters.js");
const PLOTS: &str = include_str!("plots.js");
const EXPORTS: &str = include_str!("exports.js");
const MAIN: &str = include_str!("page.js");

/// The value of the generator tag, which marks pages that a later report may replace.
pub(super) const GENERATOR: &str = "poseidon report";

/// Runs before the page is drawn: a page with a script folds its table of contents on small screens.
const EARLY_SCRIPT: &str = "document.documentElement.classList.add('js')";

/// What one page shows.
pub(super) struct PageContent<'a> {
    /// The file name.
    pub(super) file: &'a str,
    /// The studies whose claims are listed.
    pub(super) listed: &'a [usize],
    /// The studies whose sections are shown.
    pub(super) shown: &'a [usize],
    /// The link to the opening page, and its title.
    pub(super) parent: Option<(&'a str, &'a str)>,
}

/// Renders a page.
pub(super) fn render(site: &Site<'_>, page: &PageContent<'_>) -> String {
    let title = site.title(page.listed);
    let is_live = page.shown.iter().flat_map(|study| &site.reports[*study].figures).any(data::is_live);
    let script = page_script(is_live);
    let mut html = String::new();
    push_head(&mut html, &title, &script, is_live);
    let is_alone = page.listed.len() == 1;
    html.push_str(
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<div class=\"layout\">\n",
    );
    push_contents(&mut html, site, page);
    html.push_str("<main id=\"main\" tabindex=\"-1\">\n");
    push_header(&mut html, site, page, &title);
    if !is_alone {
        push_matrix(&mut html, site, page.file, page.listed);
        push_conclusions(&mut html, site, page.listed);
        push_filters(&mut html, site, page.listed);
        push_claims(&mut html, site, page.file, page.listed);
    }
    for &study in page.shown {
        push_section(&mut html, site, study, is_alone);
    }
    html.push_str("<p class=\"nothing-shown\" hidden>No study matches these filters.</p>\n</main>\n</div>\n");
    push_footer(&mut html, site, page, is_live);
    if !page.shown.is_empty() {
        push(
            &mut html,
            format_args!(
                "<script type=\"application/octet-stream\" id=\"report-data\">{}</script>\n",
                data::encode(site, page.shown)
            ),
        );
    }
    push(&mut html, format_args!("<script>{script}</script>\n</body></html>\n"));
    html
}

/// Returns the script at the end of a page.
fn page_script(is_live: bool) -> String {
    let uplot = if is_live { UPLOT_JS } else { "" };
    [uplot, FILTERS, EXPORTS, PLOTS, MAIN].join("\n")
}

/// Writes the head of a page. The page may run only its two scripts and may load nothing.
fn push_head(html: &mut String, title: &str, script: &str, is_live: bool) {
    let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text)));
    push(
        html,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {} {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"{GENERATOR}\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>{}{STYLE}{}</style>\n<script>{EARLY_SCRIPT}</script>\n</head>\n",
            hash(EARLY_SCRIPT),
            hash(script),
            Escaped(title),
            if is_live { UPLOT_CSS } else { "" },
            dark_figures()
        ),
    );
}

/// Returns the rules that give figures their colours on a dark background. A figure is printed with its light colours.
fn dark_figures() -> String {
    let mut css = String::from("@media screen and (prefers-color-scheme:dark){");
    for (light, dark) in DARK_COLOURS {
        push(
            &mut css,
            format_args!(
                ".plot [fill=\"{light}\"]{{fill:{dark}}}.plot [stroke=\"{light}\"]{{stroke:{dark}}}"
            ),
        );
    }
    css.push('}');
    css
}

/// Writes the title, the question and the extent of a page.
fn push_header(html: &mut String, site: &Site<'_>, page: &PageContent<'_>, title: &str) {
    let reports: Vec<&StudyReport> = page.listed.iter().map(|study| &site.reports[*study]).collect();
    html.push_str("<header class=\"page-header\">\n");
    if let Some((href, title)) = page.parent {
        push(
            html,
            format_args!("<p class=\"parent\"><a href=\"{}\">‹ {}</a></p>\n", Escaped(href), Escaped(title)),
        );
    }
    push(html, format_args!("<h1 id=\"title\">{}</h1>\n", Escaped(title)));
    if let [report] = reports.as_slice() {
        push(
            html,
            format_args!("<p class=\"source\">{} · {}</p>\n", Escaped(&report.source), Escaped(&report.name)),
        );
    } else {
        let counts = OutcomeCounts::new(reports.iter().copied());
        push(html, format_args!("<p class=\"lead\">{}: {}.</p>\n", extent(&reports), counts.in_words()));
    }
    html.push_str("</header>\n");
}

/// Writes the table of contents: each study with its verdicts.
fn push_contents(html: &mut String, site: &Site<'_>, page: &PageContent<'_>) {
    html.push_str("<nav class=\"contents\" aria-label=\"Contents\">\n<button type=\"button\" class=\"contents-button\" aria-expanded=\"false\" aria-controls=\"contents-list\">Contents</button>\n<div id=\"contents-list\">\n");
    if let Some((href, title)) = page.parent {
        push(html, format_args!("<p><a href=\"{}\">‹ {}</a></p>\n", Escaped(href), Escaped(title)));
    }
    match page.listed {
        [study] => push_parts(html, site, *study),
        listed => push_entries(html, site, page.file, listed),
    }
    html.push_str("</div></nav>\n");
}

/// Writes the parts of a page with one study.
fn push_parts(html: &mut String, site: &Site<'_>, study: usize) {
    let (report, id) = (&site.reports[study], &site.places[study].id);
    push(html, format_args!("<ul><li><a href=\"#title\">{}</a></li>\n", Escaped(&report.title)));
    for index in 1..=report.svg_figures.len() {
        let title = report.figures.get(index - 1).map(|figure| figure.title.clone());
        let title = title.unwrap_or_else(|| format!("Figure {index}"));
        push(html, format_args!("<li><a href=\"#{id}:figure-{index}\">{}</a></li>\n", Escaped(&title)));
    }
    if !report.verdicts.is_empty() {
        push(html, format_args!("<li><a href=\"#{id}:claims\">Claims</a></li>\n"));
    }
    push(html, format_args!("<li><a href=\"#{id}:about\">Setup and origin</a></li></ul>\n"));
}

/// Writes the studies of a page, by paper.
fn push_entries(html: &mut String, site: &Site<'_>, file: &str, listed: &[usize]) {
    html.push_str(
        "<ul><li><a href=\"#verdicts\">Verdicts</a></li><li><a href=\"#claims\">Claims</a></li></ul>\n",
    );
    for group in &site.groups {
        let studies: Vec<usize> =
            group.studies.iter().copied().filter(|study| listed.contains(study)).collect();
        if studies.is_empty() {
            continue;
        }
        push(html, format_args!("<p class=\"group\">{}</p>\n<ul>\n", Escaped(&group.title)));
        for study in studies {
            push_contents_entry(html, site, file, study);
        }
        html.push_str("</ul>\n");
    }
}

fn push_contents_entry(html: &mut String, site: &Site<'_>, file: &str, study: usize) {
    let report = &site.reports[study];
    let counts = OutcomeCounts::new(core::iter::once(report));
    push(
        html,
        format_args!(
            "<li data-study=\"{}\"><a href=\"{}\"><b>{}</b> {}",
            Escaped(&site.places[study].id),
            Escaped(&site.link(file, study, "")),
            Escaped(report.name.rsplit('/').next().unwrap_or(&report.name)),
            Escaped(&report.title)
        ),
    );
    for outcome in OUTCOMES {
        let count = counts.of(outcome);
        if count > 0 {
            push(
                html,
                format_args!(
                    " <span class=\"tally {}\">{count}<span class=\"hidden\"> {}</span></span>",
                    class(outcome),
                    outcome_word(outcome)
                ),
            );
        }
    }
    html.push_str("</a></li>\n");
}

/// Writes the origin of the results and the licence of the plotting library.
fn push_footer(html: &mut String, site: &Site<'_>, page: &PageContent<'_>, is_live: bool) {
    html.push_str("<footer>\n");
    let wall_s: f64 = page.listed.iter().map(|study| site.reports[*study].wall_s).sum();
    push(
        html,
        format_args!(
            "<details><summary>Where these results come from</summary>\n<p>{} The runs took {wall_s:.0} s of computing.</p>\n<p>A claim holds for a cell if it holds in at least 8 of 10 seeds, and it holds if it holds in all of its cells. Intervals are 95 % confidence intervals. If a gate fails, the command fails.</p></details>\n",
            Escaped(site.program)
        ),
    );
    if is_live {
        push(
            html,
            format_args!(
                "<details><summary>Licence of uPlot, which draws the interactive plots</summary>\n<pre tabindex=\"0\">{}</pre></details>\n",
                Escaped(UPLOT_LICENSE)
            ),
        );
    }
    html.push_str("</footer>\n");
}
