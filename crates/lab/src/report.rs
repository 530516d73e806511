//! What studies showed: verdicts, figures, and one page about them that needs no network.

use crate::draw::{self, Chart};
use crate::figure;
use crate::judge::{Measured, Outcome, Ran, Verdict, judge};
use crate::store::{Store, write};
use crate::study::{Finished, Study};
use core::fmt::Write as _;
use serde::Serialize;

/// What one study showed.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// What was left open and chosen.
    pub about: String,
    /// What a quick run left out.
    pub cut: Option<String>,
    /// How many runs there are, and how many of them were broken off: those are neither judged nor drawn.
    pub runs: usize,
    /// See `runs`.
    pub interrupted: usize,
    /// Seconds of all runs together.
    pub wall_s: f64,
    /// Its claims.
    pub verdicts: Vec<Verdict>,
    /// Its figures: title and charts.
    #[serde(skip)]
    pub figures: Vec<(String, Vec<Chart>)>,
    /// Where its figures were written, beside their data.
    pub figure_files: Vec<String>,
}

/// Judges and draws a study.
pub fn show(study: &Study, finished: &[&Finished]) -> Result<Shown, String> {
    let scenario = study.scenario();
    // A run that was broken off has rows up to there, but no numbers: what it did not get to do would count as nothing.
    let whole = finished.iter().filter(|run| !run.manifest.interrupted);
    let runs: Vec<Ran> = whole.map(|run| run.ran.clone()).collect();
    let verdicts = scenario.claim.iter().map(|claim| judge(claim, &runs)).collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    for spec in &scenario.figure {
        figures.push((spec.title.clone(), figure::charts(spec, &runs)?));
    }
    Ok(Shown {
        name: study.name.clone(),
        title: scenario.title.clone(),
        source: scenario.source.clone(),
        about: scenario.about.clone(),
        cut: if study.is_quick { study.cut() } else { None },
        runs: finished.len(),
        interrupted: finished.iter().filter(|run| run.manifest.interrupted).count(),
        wall_s: finished.iter().map(|run| run.manifest.wall_s).sum(),
        verdicts,
        figures,
        figure_files: Vec::new(),
    })
}

/// Writes verdicts, figures and their data into the study's folder.
pub fn keep(shown: &mut Shown, store: &Store) -> Result<(), String> {
    let folder = store.study(&shown.name);
    for (number, (_, charts)) in (1..).zip(&shown.figures) {
        let name = format!("figure-{number}");
        write(&folder, &format!("{name}.svg"), draw::svg(charts).as_bytes())?;
        write(&folder, &format!("{name}.csv"), draw::data(charts).as_bytes())?;
        shown.figure_files.push(folder.join(format!("{name}.svg")).to_string_lossy().into_owned());
    }
    let json = serde_json::to_vec_pretty(&shown).map_err(|error| error.to_string())?;
    write(&folder, "verdicts.json", &json)
}

/// A number as people read it: three digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 || !value.is_finite() => format!("{value}"),
        _ if size >= 1e6 => format!("{value:.3e}"),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ if size >= 0.1 => format!("{value:.3}"),
        _ if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A value with its interval over seeds.
pub fn estimate(measured: &Measured) -> String {
    match measured.ours.half.filter(|half| *half > 0.0) {
        Some(half) => format!("{} ± {}", number(measured.ours.mean), number(half)),
        None => number(measured.ours.mean),
    }
}

/// What was measured, in a line: one value, or the range over cells.
pub fn ours(verdict: &Verdict) -> String {
    match verdict.cells.as_slice() {
        [] => String::new(),
        [one] => estimate(one),
        many => {
            let means = || many.iter().map(|cell| cell.ours.mean);
            let (low, high) =
                (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
            format!("{} to {}", number(low), number(high))
        }
    }
}

/// A verdict in a word.
pub const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::NotComparable => "not comparable",
        Outcome::NotRun => "not run",
    }
}

/// One page about studies, with everything in it.
pub fn page(title: &str, studies: &[Shown], tool: &str) -> String {
    let mut html = String::new();
    let all = || studies.iter().flat_map(|study| &study.verdicts);
    let count = |outcome: Outcome| all().filter(|verdict| verdict.outcome == outcome).count();
    let gating_failed = all().filter(|v| v.gating && v.outcome == Outcome::Fails).count();
    let (holds, fails) = (count(Outcome::Holds), count(Outcome::Fails));
    let (apart, missing) = (count(Outcome::NotComparable), count(Outcome::NotRun));
    let runs: usize = studies.iter().map(|study| study.runs).sum();
    put(
        &mut html,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title><style>{STYLE}</style></head><body>\n",
            escaped(title)
        ),
    );
    put(
        &mut html,
        format_args!(
            "<h1>{}</h1>\n<p class=\"lead\">{holds} claims hold, {fails} fail, {apart} are not comparable, {missing} were not run; {gating_failed} of those that fail are gating. {} studies, {runs} runs. {}</p>\n",
            escaped(title),
            studies.len(),
            escaped(tool)
        ),
    );
    put(
        &mut html,
        format_args!(
            "<h2>Claims</h2>\n<table><thead><tr><th>figure</th><th>claim</th><th>the paper</th><th>must be</th><th>ours</th><th>verdict</th></tr></thead><tbody>\n"
        ),
    );
    for study in studies {
        for verdict in &study.verdicts {
            let gating = if verdict.gating {
                " <span class=\"gate\" title=\"the suite fails where this fails\">gate</span>"
            } else {
                ""
            };
            put(
                &mut html,
                format_args!(
                    "<tr class=\"{}\"><td><a href=\"#{1}\">{1}</a></td><td>{2}{gating}</td><td>{3}</td><td>{4}</td><td>{5}</td><td><b>{6}</b></td></tr>\n",
                    word(verdict.outcome).replace(' ', "-"),
                    escaped(&study.name),
                    escaped(&verdict.says),
                    escaped(&verdict.paper),
                    escaped(&verdict.must),
                    escaped(&ours(verdict)),
                    word(verdict.outcome)
                ),
            );
        }
    }
    html.push_str("</tbody></table>\n");
    for study in studies {
        section(&mut html, study);
    }
    html.push_str("</body></html>\n");
    html
}

fn section(html: &mut String, study: &Shown) {
    put(
        html,
        format_args!(
            "<section id=\"{0}\"><h2>{0}: {1}</h2>\n<p class=\"source\">{2}; {3} runs, {4:.0} s of computing",
            escaped(&study.name),
            escaped(&study.title),
            escaped(&study.source),
            study.runs,
            study.wall_s
        ),
    );
    if study.interrupted > 0 {
        put(html, format_args!("; {} of them broken off and left out", study.interrupted));
    }
    html.push_str("</p>\n");
    if let Some(cut) = &study.cut {
        put(html, format_args!("<p class=\"cut\">Cut: {}.</p>\n", escaped(cut)));
    }
    if !study.about.is_empty() {
        put(html, format_args!("<p>{}</p>\n", escaped(study.about.trim())));
    }
    for (_, charts) in &study.figures {
        put(html, format_args!("<figure>{}</figure>\n", draw::svg(charts)));
    }
    for verdict in &study.verdicts {
        put(
            html,
            format_args!(
                "<details{}><summary><b>{}</b>: {}</summary>\n<p>The paper: {}. It must be: {}.",
                if verdict.outcome == Outcome::Fails { " open" } else { "" },
                word(verdict.outcome),
                escaped(&verdict.says),
                escaped(&verdict.paper),
                escaped(&verdict.must)
            ),
        );
        if !verdict.note.is_empty() {
            put(html, format_args!(" {}", escaped(verdict.note.trim())));
        }
        html.push_str("</p>\n");
        if !verdict.cells.is_empty() {
            html.push_str("<table><thead><tr><th>cell</th><th>ours (mean ± 95 %)</th><th>seeds</th><th></th></tr></thead><tbody>");
            for cell in &verdict.cells {
                put(
                    html,
                    format_args!(
                        "<tr><td>{}</td><td>{}</td><td>{} of {}</td><td>{}</td></tr>",
                        escaped(&cell.cell),
                        escaped(&estimate(cell)),
                        cell.passed,
                        cell.of,
                        if cell.holds { "" } else { "fails" }
                    ),
                );
            }
            html.push_str("</tbody></table>\n");
        }
        html.push_str("</details>\n");
    }
    html.push_str("</section>\n");
}

fn put(html: &mut String, text: core::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("a text takes everything");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}\
table{border-collapse:collapse;margin:.5rem 0;font-size:13px}td,th{border:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}\
th{background:#f5f5f5}tr.holds td:last-child{background:#e3f1ea}tr.fails td:last-child{background:#f9e1d5}\
tr.not-comparable td:last-child,tr.not-run td:last-child{background:#eee}\
.gate{font-size:11px;border:1px solid #999;border-radius:3px;padding:0 .2rem;color:#555}.source,.cut{color:#555;font-size:13px}.lead{font-size:1.05rem}\
figure{margin:1rem 0;max-width:34rem}figure svg{width:100%;height:auto}\
details{margin:.4rem 0}summary{cursor:pointer}";
