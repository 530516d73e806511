//! The section of one study: its answer, figures, claims, measurements and files.

use super::answer::answer;
use super::files::command;
use super::html::{Escaped, plural, push};
use super::outcome::{class, push_badge, severity};
use super::overview::push_gate;
use super::site::Site;
use crate::judge::Verdict;
use crate::report::StudyReport;
use crate::report::format::{format_cell, format_measured, format_seeds};
use crate::report::provenance::STALE_LABEL;

/// Writes the section of a study. If the study is alone on its page, the page has its title.
pub(super) fn push_section(html: &mut String, site: &Site<'_>, study: usize, is_alone: bool) {
    let (report, id) = (&site.reports[study], site.places[study].id.as_str());
    push(
        html,
        format_args!(
            "<section class=\"study\" id=\"{id}\" data-paper=\"{}\" aria-labelledby=\"{}\">\n",
            Escaped(&site.group_of(study).key),
            if is_alone { "title".to_owned() } else { format!("{id}:title") }
        ),
    );
    if !is_alone {
        push(
            html,
            format_args!(
                "<h2 id=\"{id}:title\">{} <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to the study {}\">#</a></h2>\n<p class=\"source\">{} · {}</p>\n",
                Escaped(&report.title),
                Escaped(&report.name),
                Escaped(&report.source),
                Escaped(&report.name)
            ),
        );
    }
    push(html, format_args!("<p class=\"answer\">{}</p>\n", Escaped(&answer(report))));
    push_warnings(html, report);
    let is_beside = report.svg_figures.len() == 1 && !report.verdicts.is_empty();
    push(html, format_args!("<div class=\"results{}\">\n", if is_beside { " beside" } else { "" }));
    push_figures(html, report, id);
    push_claim_list(html, report, id);
    html.push_str("</div>\n");
    push_measurements(html, report);
    push_about(html, report, id);
    push_files(html, site, study);
    html.push_str("</section>\n");
}

/// Writes what a reader must know before trusting the numbers.
fn push_warnings(html: &mut String, report: &StudyReport) {
    let mut warn = |text: String| push(html, format_args!("<p class=\"warning\">{}</p>\n", Escaped(&text)));
    if let Some(reason) = &report.stale_reason {
        warn(format!("These results are {STALE_LABEL}: {reason}."));
    }
    if let Some(omissions) = &report.omissions {
        warn(format!("Quick run: {omissions}."));
    }
    if report.interrupted > 0 {
        warn(format!(
            "{} of {} were interrupted and are left out.",
            report.interrupted,
            plural(report.runs, "run")
        ));
    }
}

/// Writes the figures of a study.
fn push_figures(html: &mut String, report: &StudyReport, id: &str) {
    html.push_str("<div class=\"figures\">\n");
    for (index, svg) in report.svg_figures.iter().enumerate() {
        push(
            html,
            format_args!(
                "<figure id=\"{id}:figure-{}\" data-study=\"{id}\" data-index=\"{index}\"><div class=\"plot\">{svg}</div>",
                index + 1
            ),
        );
        let charts = report.figures.get(index).map(|figure| figure.charts.as_slice()).unwrap_or_default();
        for chart in charts.iter().filter(|chart| chart.is_empty()) {
            let reason = if chart.notes.is_empty() {
                "no reason is recorded".to_owned()
            } else {
                chart.notes.join("; ")
            };
            push(
                html,
                format_args!(
                    "<p class=\"empty\">“{}” has no data: {}.</p>",
                    Escaped(&chart.title),
                    Escaped(&reason)
                ),
            );
        }
        if report.figures.get(index).is_none() {
            html.push_str("<p class=\"note\">Published as a picture, without its data. Run the study again to get them.</p>");
        }
        // The script adds its buttons here. The space is reserved, so that the page does not move.
        html.push_str("<div class=\"tools\"></div></figure>\n");
    }
    if report.svg_figures.is_empty() {
        push(
            html,
            format_args!(
                "<p class=\"empty\">There is no figure: {}.</p>\n",
                Escaped(&missing_figure_reason(report))
            ),
        );
    }
    html.push_str("</div>\n");
}

/// Returns why a study has no figure.
fn missing_figure_reason(report: &StudyReport) -> String {
    let note = report.verdicts.iter().map(|verdict| verdict.note.trim()).find(|note| !note.is_empty());
    match (report.runs, report.stale_reason.is_some(), note) {
        (0, _, Some(note)) => note.trim_end_matches('.').to_owned(),
        (0, _, None) => "the study has no runs".to_owned(),
        (_, true, _) => {
            "none is published with these older results; run the study again to draw it".to_owned()
        }
        (_, false, _) => "the scenario has no [[figure]]".to_owned(),
    }
}

/// Writes the claims of a study, failures first, with the paper's statement beside the measured value.
fn push_claim_list(html: &mut String, report: &StudyReport, id: &str) {
    if report.verdicts.is_empty() {
        return;
    }
    let mut verdicts: Vec<(usize, &Verdict)> = (1..).zip(&report.verdicts).collect();
    verdicts.sort_by_key(|(_, verdict)| severity(verdict));
    let has_paper = report.verdicts.iter().any(|verdict| !verdict.paper.is_empty());
    let heading = if has_paper { "The paper’s numbers and ours" } else { "Claims" };
    push(html, format_args!("<div class=\"claims\"><h3 id=\"{id}:claims\">{heading}</h3>\n<ol>\n"));
    for (number, verdict) in verdicts {
        push(html, format_args!("<li class=\"{}\" id=\"{id}:claim-{number}\"><p>", class(verdict.outcome)));
        push_badge(html, verdict.outcome);
        push_gate(html, verdict);
        push(html, format_args!(" {}</p>\n<dl>", Escaped(&verdict.claim)));
        let measured = format_measured(verdict);
        for (label, text) in [
            ("paper", verdict.paper.as_str()),
            ("metric", &verdict.metric),
            ("ours", &measured),
            ("required", &verdict.condition),
        ] {
            if !text.is_empty() {
                push(html, format_args!("<div><dt>{label}</dt><dd>{}</dd></div>", Escaped(text)));
            }
        }
        html.push_str("</dl>\n");
        if !verdict.note.trim().is_empty() {
            push(html, format_args!("<p class=\"note\">{}</p>\n", Escaped(verdict.note.trim())));
        }
        html.push_str("</li>\n");
    }
    html.push_str("</ol></div>\n");
}

/// Writes every measured value that a claim uses.
fn push_measurements(html: &mut String, report: &StudyReport) {
    let count: usize = report.verdicts.iter().map(|verdict| verdict.cells.len()).sum();
    if count == 0 {
        return;
    }
    push(
        html,
        format_args!(
            "<details class=\"measurements\"><summary>Measurements: {}</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Measurements\"><table><thead><tr><th scope=\"col\">claim</th><th scope=\"col\">cell</th><th scope=\"col\">measured</th><th scope=\"col\">seeds that satisfy the claim</th><th scope=\"col\">verdict</th></tr></thead><tbody>\n",
            plural(count, "value")
        ),
    );
    for verdict in &report.verdicts {
        for (index, cell) in verdict.cells.iter().enumerate() {
            html.push_str("<tr>");
            if index == 0 {
                push(
                    html,
                    format_args!(
                        "<th scope=\"rowgroup\" rowspan=\"{}\">{}</th>",
                        verdict.cells.len(),
                        Escaped(&verdict.claim)
                    ),
                );
            }
            push(
                html,
                format_args!(
                    "<td>{}</td><td>{}</td><td>{} of {}</td><td>",
                    Escaped(&cell.cell),
                    Escaped(&format_cell(cell)),
                    cell.passed,
                    cell.judged
                ),
            );
            push_badge(html, cell.outcome);
            html.push_str("</td></tr>\n");
        }
    }
    html.push_str("</tbody></table></div></details>\n");
}

/// Writes the assumptions and the origin of a study.
fn push_about(html: &mut String, report: &StudyReport, id: &str) {
    push(
        html,
        format_args!(
            "<details class=\"about\" id=\"{id}:about\"><summary>Setup, assumptions and origin</summary>\n"
        ),
    );
    if !report.about.trim().is_empty() {
        push(html, format_args!("<p>{}</p>\n", Escaped(report.about.trim())));
    }
    push(
        html,
        format_args!(
            "<p>{}, {}, {:.0} s of computing.",
            Escaped(&format_seeds(report)),
            plural(report.runs, "run"),
            report.wall_s
        ),
    );
    let provenance = report.provenance.as_ref().map(ToString::to_string);
    let origin = provenance.unwrap_or_else(|| report.origin.clone());
    push(html, format_args!(" {}</p>\n</details>\n", Escaped(&origin)));
}

/// Writes the command that runs the study again, and the links to its files.
fn push_files(html: &mut String, site: &Site<'_>, study: usize) {
    let (report, id, files) = (&site.reports[study], &site.places[study].id, &site.files[study]);
    if report.scenario_text.is_some() {
        push(
            html,
            format_args!(
                "<details class=\"scenario\" data-study=\"{id}\" data-file=\"{}.toml\" hidden><summary>Scenario</summary>\n</details>\n",
                Escaped(id.rsplit('/').next().unwrap_or(id))
            ),
        );
    }
    push(
        html,
        format_args!(
            "<p class=\"files\"><span>Run it again: <code>{}</code></span>",
            Escaped(&command(report))
        ),
    );
    for map in &files.maps {
        push(
            html,
            format_args!(" <a class=\"map\" href=\"{}\">Map: {}</a>", Escaped(&map.href), Escaped(&map.name)),
        );
    }
    for file in &files.files {
        push(html, format_args!(" <a href=\"{}\">{}</a>", Escaped(&file.href), Escaped(&file.name)));
    }
    html.push_str("</p>\n");
}
