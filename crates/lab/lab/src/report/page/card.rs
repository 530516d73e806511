//! The report card as one HTML page without scripts: the table of grades, and the details of each scenario below it.

use super::html::{Escaped, plural, push, slug};
use crate::judge::{Outcome, Verdict};
use crate::report::card::{CardEntry, CardScenario, Grade, ReportCard};
use crate::report::format::format_cell;

const STYLE: &str = include_str!("card.css");

/// Renders a report card as a page.
pub fn render_card(card: &ReportCard) -> String {
    let mut html = String::new();
    push_head(&mut html, card);
    push_grades(&mut html, card);
    for scenario in &card.scenarios {
        push_scenario(&mut html, scenario);
    }
    push(
        &mut html,
        format_args!(
            "<footer><p>Made by <code>poseidon card</code>. {} The runs took {:.0} s of computing. Numbers are means over seeds. A claim holds for a cell if it holds in at least 8 of 10 seeds, and it holds if it holds in all of its cells.</p></footer>\n</main></body></html>\n",
            Escaped(&card.program),
            card.wall_s()
        ),
    );
    html
}

/// Returns the class of a grade in the style sheet.
const fn class(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Partial => "partial",
        Grade::Poor => "poor",
        Grade::None => "none",
    }
}

fn push_head(html: &mut String, card: &ReportCard) {
    push(
        html,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"poseidon card\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>Report card of congestion control</title>\n<style>{STYLE}</style>\n</head>\n<body><main>\n<h1>Report card of congestion control</h1>\n"
        ),
    );
    let runs: usize = card.scenarios.iter().map(|scenario| scenario.runs).sum();
    push(
        html,
        format_args!(
            "<p class=\"lead\">{} in {}: {}.</p>\n<ul class=\"legend\">",
            plural(card.laws.len(), "law"),
            plural(card.scenarios.len(), "scenario"),
            plural(runs, "run")
        ),
    );
    for grade in Grade::ALL {
        push(
            html,
            format_args!(
                "<li><span class=\"grade {}\">{} {}</span> {}</li>",
                class(grade),
                grade.symbol(),
                grade.word(),
                grade.meaning()
            ),
        );
    }
    html.push_str("</ul>\n<p>The number is the measured value of the scenario’s first claim. Each cell links to the details of its scenario.</p>\n");
}

/// Writes the table of grades: one row per scenario, one column per law.
fn push_grades(html: &mut String, card: &ReportCard) {
    html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Grades\"><table class=\"grades\"><thead><tr><th scope=\"col\">scenario</th>");
    for law in &card.laws {
        push(html, format_args!("<th scope=\"col\">{}</th>", Escaped(law)));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for scenario in &card.scenarios {
        let id = slug(scenario.short_name());
        push(
            html,
            format_args!(
                "<tr><th scope=\"row\"><a href=\"#{id}\">{}</a></th>",
                Escaped(scenario.short_name())
            ),
        );
        for entry in &scenario.entries {
            push_grade(html, &id, entry);
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n<tfoot>");
    for grade in [Grade::Good, Grade::Partial, Grade::Poor] {
        push(html, format_args!("<tr><th scope=\"row\">{} {}</th>", grade.symbol(), grade.word()));
        for law in &card.laws {
            push(html, format_args!("<td>{}</td>", card.count(Some(law), grade)));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tfoot></table></div>\n");
}

fn push_grade(html: &mut String, id: &str, entry: &CardEntry) {
    let grade = entry.grade;
    push(
        html,
        format_args!(
            "<td class=\"{}\"><a href=\"#{id}\"><span aria-hidden=\"true\">{}</span><span class=\"hidden\">{}</span> {}</a></td>",
            class(grade),
            grade.symbol(),
            grade.word(),
            Escaped(&entry.number)
        ),
    );
}

/// Writes the details of a scenario: the setup, and the measured values of each law.
fn push_scenario(html: &mut String, scenario: &CardScenario) {
    push(
        html,
        format_args!(
            "<section id=\"{}\"><h2>{}: {}</h2>\n<p>{}</p>\n",
            slug(scenario.short_name()),
            Escaped(scenario.short_name()),
            Escaped(&scenario.title),
            Escaped(scenario.about.trim())
        ),
    );
    if let Some(omissions) = &scenario.omissions {
        push(html, format_args!("<p class=\"note\">Quick run: {}.</p>\n", Escaped(omissions)));
    }
    html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Measured values\"><table><thead><tr><th scope=\"col\">law</th>");
    for claim in &scenario.claims {
        push(
            html,
            format_args!(
                "<th scope=\"col\">{}<br><code>{}</code></th>",
                Escaped(&claim.claim),
                Escaped(&claim.metric)
            ),
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for entry in scenario.entries.iter().filter(|entry| entry.refused.is_none()) {
        push(
            html,
            format_args!(
                "<tr><th scope=\"row\"><span class=\"grade {}\">{}</span> {}</th>",
                class(entry.grade),
                entry.grade.symbol(),
                Escaped(&entry.law)
            ),
        );
        for verdict in &entry.verdicts {
            push_values(html, verdict);
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    for (reason, laws) in scenario.reasons() {
        push(
            html,
            format_args!(
                "<p class=\"note\">Without a grade: {}. {}</p>\n",
                Escaped(&laws.join(", ")),
                Escaped(reason)
            ),
        );
    }
    html.push_str("</section>\n");
}

/// Writes the measured values of a claim, one line per cell.
fn push_values(html: &mut String, verdict: &Verdict) {
    let (class, symbol) = match verdict.outcome {
        Outcome::Holds => ("holds", "✓"),
        Outcome::Fails => ("fails", "✗"),
        Outcome::NotComparable | Outcome::NotRun => ("none", "–"),
    };
    push(html, format_args!("<td class=\"{class}\">"));
    for cell in &verdict.cells {
        let name = if cell.cell.is_empty() { String::new() } else { format!("{}: ", cell.cell) };
        push(html, format_args!("<div>{symbol} {}{}</div>", Escaped(&name), Escaped(&format_cell(cell))));
    }
    html.push_str("</td>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::card::CardClaim;

    #[test]
    fn hostile_names_become_harmless() {
        let entry = |law: &str, grade, refused: Option<&str>| CardEntry {
            law: law.to_owned(),
            grade,
            number: "<1>".to_owned(),
            verdicts: Vec::new(),
            refused: refused.map(str::to_owned),
        };
        let scenario = CardScenario {
            name: "suite/a\"b".to_owned(),
            title: "<script>".to_owned(),
            about: "a & b".to_owned(),
            omissions: None,
            runs: 1,
            wall_s: 0.0,
            claims: vec![CardClaim { claim: "<c>".to_owned(), metric: "x".to_owned() }],
            entries: vec![entry("<law>", Grade::Good, None), entry("other", Grade::None, Some("no <marks>"))],
        };
        let laws = vec!["<law>".to_owned(), "other".to_owned()];
        let card = ReportCard { laws, scenarios: vec![scenario], program: "p".to_owned() };
        let html = render_card(&card);
        for text in ["<script", "<law>", "<c>", "<1>", "<marks>", "a\"b<"] {
            assert!(!html.contains(text), "{text}: {html}");
        }
        assert!(html.contains("href=\"#a-b\"") && html.contains("id=\"a-b\""), "{html}");
        assert!(html.contains("Without a grade: other. no &lt;marks&gt;"), "{html}");
    }
}
