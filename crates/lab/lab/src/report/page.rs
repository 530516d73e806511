//! One page about studies: the papers at a glance, every claim, every figure. It needs no network.

use super::{Shown, estimate, ours, seeds, word};
use crate::judge::Outcome;
use core::fmt::Write as _;

/// A paper whose scenarios were run, and what to take from it.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    /// What the names of its studies begin with, before a slash.
    pub folder: &'a str,
    /// Its title, in Markdown's first line, and a paragraph or more below.
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

/// What became of the claims of some studies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    entries: usize,
    holds: usize,
    fails: usize,
    not_comparable: usize,
    not_run: usize,
    gates: usize,
    gates_held: usize,
}

impl Tally {
    fn of<'a>(studies: impl Iterator<Item = &'a Shown>) -> Self {
        let mut tally = Self::default();
        for study in studies {
            tally.entries += 1;
            for verdict in &study.verdicts {
                *match verdict.outcome {
                    Outcome::Holds => &mut tally.holds,
                    Outcome::Fails => &mut tally.fails,
                    Outcome::NotComparable => &mut tally.not_comparable,
                    Outcome::NotRun => &mut tally.not_run,
                } += 1;
                tally.gates += usize::from(verdict.gating);
                tally.gates_held += usize::from(verdict.gating && verdict.outcome == Outcome::Holds);
            }
        }
        tally
    }

    fn cells(&self) -> [String; 6] {
        let gates = format!("{} of {}", self.gates_held, self.gates);
        [self.entries, self.holds, self.fails, self.not_comparable, self.not_run]
            .map(|count| count.to_string())
            .into_iter()
            .chain([gates])
            .collect::<Vec<_>>()
            .try_into()
            .expect("five counts and the gates")
    }
}

/// The heads of the columns of a tally.
const HEADS: [&str; 6] = ["entries", "claims hold", "fail", "not comparable", "not run", "gates hold"];

/// The folder of a study's name.
fn folder_of(name: &str) -> &str {
    name.split_once('/').map_or("", |(folder, _)| folder)
}

/// The papers at a glance: a row of counts each, and what to take from them.
fn opening(html: &mut String, studies: &[Shown], papers: &[Paper<'_>]) {
    let known: Vec<&Paper<'_>> = papers
        .iter()
        .filter(|paper| studies.iter().any(|study| folder_of(&study.name) == paper.folder))
        .collect();
    if known.is_empty() {
        return;
    }
    html.push_str("<h2>At a glance</h2>\n<table><thead><tr><th></th>");
    HEADS.iter().for_each(|head| put(html, format_args!("<th>{head}</th>")));
    html.push_str("</tr></thead><tbody>\n");
    for paper in &known {
        let tally = Tally::of(studies.iter().filter(|study| folder_of(&study.name) == paper.folder));
        put(html, format_args!("<tr><td><a href=\"#{}\">{}</a></td>", paper.folder, escaped(paper.title())));
        tally.cells().iter().for_each(|cell| put(html, format_args!("<td>{cell}</td>")));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>\n");
    for paper in &known {
        put(html, format_args!("<h3 id=\"{}\">{}</h3>\n", paper.folder, escaped(paper.title())));
        for paragraph in paper.paragraphs() {
            put(html, format_args!("<p>{}</p>\n", escaped(paragraph)));
        }
    }
}

/// One page about studies, with everything in it.
pub fn page(title: &str, studies: &[Shown], papers: &[Paper<'_>], tool: &str) -> String {
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
    opening(&mut html, studies, papers);
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
            "<section id=\"{0}\"><h2>{0}: {1}</h2>\n<p class=\"source\">{2}; {3}, {4} runs, {5:.0} s of computing",
            escaped(&study.name),
            escaped(&study.title),
            escaped(&study.source),
            seeds(study),
            study.runs,
            study.wall_s
        ),
    );
    if study.interrupted > 0 {
        put(html, format_args!("; {} of them broken off and left out", study.interrupted));
    }
    if let Some(from) = &study.provenance {
        put(html, format_args!("; {}", escaped(&from.to_string())));
    }
    html.push_str("</p>\n");
    if let Some(why) = &study.stale {
        let older = super::OLDER;
        put(html, format_args!("<p class=\"cut\">These results are {older}: {}.</p>\n", escaped(why)));
    }
    if let Some(cut) = &study.cut {
        put(html, format_args!("<p class=\"cut\">Cut: {}.</p>\n", escaped(cut)));
    }
    if !study.about.is_empty() {
        put(html, format_args!("<p>{}</p>\n", escaped(study.about.trim())));
    }
    for drawn in &study.drawn {
        put(html, format_args!("<figure>{drawn}</figure>\n"));
    }
    if study.drawn.is_empty() && study.stale.is_some() {
        html.push_str("<p>No figure is published; it is drawn when the study is run again.</p>\n");
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
                        word(cell.outcome)
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
h3{font-size:1.05rem}figcaption{color:#555;font-size:12px}figure{margin:1rem 0;max-width:34rem}figure svg{width:100%;height:auto}\
details{margin:.4rem 0}summary{cursor:pointer}";
