//! The self-contained HTML page with an overview of the papers, all claims and all figures.

use super::StudyReport;
use super::format::{format_cell, format_measured, format_seeds, outcome_word};
use super::provenance::STALE_LABEL;
use crate::judge::{CellVerdict, Outcome, Verdict};
use core::fmt::Write as _;

/// A reproduced paper and its conclusions.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    /// The folder that contains the paper's studies.
    pub folder: &'a str,
    /// The Markdown text: a title on the first line, followed by paragraphs.
    pub text: &'a str,
}

impl<'a> Paper<'a> {
    fn title(&self) -> &'a str {
        self.text.lines().next().unwrap_or(self.folder).trim_start_matches(['#', ' '])
    }

    fn paragraphs(&self) -> impl Iterator<Item = &'a str> {
        self.text.split("\n\n").skip(1).map(str::trim).filter(|text| !text.is_empty())
    }
}

/// The number of claims by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OutcomeCounts {
    studies: usize,
    holds: usize,
    fails: usize,
    not_comparable: usize,
    not_run: usize,
    gates: usize,
    gates_held: usize,
}

impl OutcomeCounts {
    fn new<'a>(reports: impl Iterator<Item = &'a StudyReport>) -> Self {
        let mut counts = Self::default();
        for report in reports {
            counts.studies += 1;
            for verdict in &report.verdicts {
                *match verdict.outcome {
                    Outcome::Holds => &mut counts.holds,
                    Outcome::Fails => &mut counts.fails,
                    Outcome::NotComparable => &mut counts.not_comparable,
                    Outcome::NotRun => &mut counts.not_run,
                } += 1;
                counts.gates += usize::from(verdict.gating);
                counts.gates_held += usize::from(verdict.gating && verdict.outcome == Outcome::Holds);
            }
        }
        counts
    }

    fn cells(&self) -> [String; 6] {
        let gates = format!("{} of {}", self.gates_held, self.gates);
        [self.studies, self.holds, self.fails, self.not_comparable, self.not_run]
            .map(|count| count.to_string())
            .into_iter()
            .chain([gates])
            .collect::<Vec<_>>()
            .try_into()
            .expect("there are six cells")
    }
}

/// The column headers of the overview.
const COUNT_HEADERS: [&str; 6] =
    ["entries", "claims hold", "fail", "not comparable", "not run", "gates hold"];

/// Returns the folder part of a study name.
fn folder_of(name: &str) -> &str {
    name.split_once('/').map_or("", |(folder, _)| folder)
}

/// Writes the overview, with one row of counts per paper and the conclusions.
fn push_overview(html: &mut String, reports: &[StudyReport], papers: &[Paper<'_>]) {
    let papers: Vec<&Paper<'_>> = papers
        .iter()
        .filter(|paper| reports.iter().any(|report| folder_of(&report.name) == paper.folder))
        .collect();
    if papers.is_empty() {
        return;
    }
    html.push_str("<h2>Overview</h2>\n<table><thead><tr><th></th>");
    COUNT_HEADERS.iter().for_each(|header| push(html, format_args!("<th>{header}</th>")));
    html.push_str("</tr></thead><tbody>\n");
    for paper in &papers {
        let counts =
            OutcomeCounts::new(reports.iter().filter(|report| folder_of(&report.name) == paper.folder));
        push(
            html,
            format_args!("<tr><td><a href=\"#{}\">{}</a></td>", paper.folder, escape_html(paper.title())),
        );
        counts.cells().iter().for_each(|cell| push(html, format_args!("<td>{cell}</td>")));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>\n");
    for paper in &papers {
        push(html, format_args!("<h3 id=\"{}\">{}</h3>\n", paper.folder, escape_html(paper.title())));
        for paragraph in paper.paragraphs() {
            push(html, format_args!("<p>{}</p>\n", escape_html(paragraph)));
        }
    }
}

/// Renders the reports as an HTML page.
pub fn render_page(title: &str, reports: &[StudyReport], papers: &[Paper<'_>], program: &str) -> String {
    let mut html = String::new();
    let verdicts = || reports.iter().flat_map(|report| &report.verdicts);
    let count = |outcome: Outcome| verdicts().filter(|verdict| verdict.outcome == outcome).count();
    let gating_failed = verdicts().filter(|v| v.gating && v.outcome == Outcome::Fails).count();
    let (holds, fails) = (count(Outcome::Holds), count(Outcome::Fails));
    let (not_comparable, not_run) = (count(Outcome::NotComparable), count(Outcome::NotRun));
    let runs: usize = reports.iter().map(|report| report.runs).sum();
    push(
        &mut html,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title><style>{STYLE}</style></head><body>\n",
            escape_html(title)
        ),
    );
    push(
        &mut html,
        format_args!(
            "<h1>{}</h1>\n<p class=\"lead\">{holds} claims hold, {fails} fail, {not_comparable} are not comparable, {not_run} were not run; {gating_failed} of those that fail are gating. {} studies, {runs} runs. {}</p>\n",
            escape_html(title),
            reports.len(),
            escape_html(program)
        ),
    );
    push_overview(&mut html, reports, papers);
    push_claims(&mut html, reports);
    for report in reports {
        push_section(&mut html, report);
    }
    html.push_str("</body></html>\n");
    html
}

/// Writes the table of all claims.
fn push_claims(html: &mut String, reports: &[StudyReport]) {
    push(
        html,
        format_args!(
            "<h2>Claims</h2>\n<table><thead><tr><th>figure</th><th>claim</th><th>the paper</th><th>condition</th><th>measured</th><th>verdict</th></tr></thead><tbody>\n"
        ),
    );
    for report in reports {
        for verdict in &report.verdicts {
            let gating = if verdict.gating {
                " <span class=\"gate\" title=\"the suite fails if this claim fails\">gate</span>"
            } else {
                ""
            };
            push(
                html,
                format_args!(
                    "<tr class=\"{}\"><td><a href=\"#{1}\">{1}</a></td><td>{2}{gating}</td><td>{3}</td><td>{4}</td><td>{5}</td><td><b>{6}</b></td></tr>\n",
                    outcome_word(verdict.outcome).replace(' ', "-"),
                    escape_html(&report.name),
                    escape_html(&verdict.claim),
                    escape_html(&verdict.paper),
                    escape_html(&verdict.condition),
                    escape_html(&format_measured(verdict)),
                    outcome_word(verdict.outcome)
                ),
            );
        }
    }
    html.push_str("</tbody></table>\n");
}

/// Writes the section of one study.
fn push_section(html: &mut String, report: &StudyReport) {
    push(
        html,
        format_args!(
            "<section id=\"{0}\"><h2>{0}: {1}</h2>\n<p class=\"source\">{2}; {3}, {4} runs, {5:.0} s of computing",
            escape_html(&report.name),
            escape_html(&report.title),
            escape_html(&report.source),
            format_seeds(report),
            report.runs,
            report.wall_s
        ),
    );
    if report.interrupted > 0 {
        push(html, format_args!("; {} of them interrupted and left out", report.interrupted));
    }
    if let Some(provenance) = &report.provenance {
        push(html, format_args!("; {}", escape_html(&provenance.to_string())));
    }
    html.push_str("</p>\n");
    if let Some(reason) = &report.stale_reason {
        push(
            html,
            format_args!("<p class=\"cut\">These results are {STALE_LABEL}: {}.</p>\n", escape_html(reason)),
        );
    }
    if let Some(omissions) = &report.omissions {
        push(html, format_args!("<p class=\"cut\">Quick run: {}.</p>\n", escape_html(omissions)));
    }
    if !report.about.is_empty() {
        push(html, format_args!("<p>{}</p>\n", escape_html(report.about.trim())));
    }
    for svg in &report.svg_figures {
        push(html, format_args!("<figure>{svg}</figure>\n"));
    }
    if report.svg_figures.is_empty() && report.stale_reason.is_some() {
        html.push_str("<p>No figure is published. Run the study again to draw it.</p>\n");
    }
    report.verdicts.iter().for_each(|verdict| push_verdict(html, verdict));
    html.push_str("</section>\n");
}

/// Writes the details of one verdict.
fn push_verdict(html: &mut String, verdict: &Verdict) {
    push(
        html,
        format_args!(
            "<details{}><summary><b>{}</b>: {}</summary>\n<p>Paper: {}. Condition: {}.",
            if verdict.outcome == Outcome::Fails { " open" } else { "" },
            outcome_word(verdict.outcome),
            escape_html(&verdict.claim),
            escape_html(&verdict.paper),
            escape_html(&verdict.condition)
        ),
    );
    if !verdict.note.is_empty() {
        push(html, format_args!(" {}", escape_html(verdict.note.trim())));
    }
    html.push_str("</p>\n");
    push_cells(html, &verdict.cells);
    html.push_str("</details>\n");
}

/// Writes the table of a verdict's cells.
fn push_cells(html: &mut String, cells: &[CellVerdict]) {
    if !cells.is_empty() {
        html.push_str("<table><thead><tr><th>cell</th><th>measured (mean ± 95 %)</th><th>seeds</th><th></th></tr></thead><tbody>");
        for cell in cells {
            push(
                html,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{} of {}</td><td>{}</td></tr>",
                    escape_html(&cell.cell),
                    escape_html(&format_cell(cell)),
                    cell.passed,
                    cell.judged,
                    outcome_word(cell.outcome)
                ),
            );
        }
        html.push_str("</tbody></table>\n");
    }
}

/// Appends formatted text.
fn push(html: &mut String, text: core::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("writing to a string cannot fail");
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}\
table{display:block;overflow-x:auto;max-width:100%;border-collapse:collapse;margin:.5rem 0;font-size:13px}td,th{border:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}\
th{background:#f5f5f5}tr.holds td:last-child{background:#e3f1ea}tr.fails td:last-child{background:#f9e1d5}\
tr.not-comparable td:last-child,tr.not-run td:last-child{background:#eee}\
.gate{font-size:11px;border:1px solid #999;border-radius:3px;padding:0 .2rem;color:#555}.source,.cut{color:#555;font-size:13px}.lead{font-size:1.05rem}\
h3{font-size:1.05rem}figcaption{color:#555;font-size:12px}figure{margin:1rem 0;max-width:34rem}figure svg{width:100%;height:auto}\
details{margin:.4rem 0}summary{cursor:pointer}";
