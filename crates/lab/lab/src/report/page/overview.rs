//! The first view of a page: the matrix of verdicts, the conclusions of the papers, and all claims.

use super::html::{Escaped, encode_path, plural, push};
use super::outcome::{OUTCOMES, OutcomeCounts, class, push_badge, severity};
use super::site::Site;
use crate::judge::{Outcome, Verdict};
use crate::report::format::{format_measured, outcome_word};

/// Writes the matrix of verdicts: one row per paper, or one row per study if there is only one paper.
pub(super) fn push_matrix(html: &mut String, site: &Site<'_>, page: &str, studies: &[usize]) {
    let groups: Vec<_> = site
        .groups
        .iter()
        .filter(|group| group.studies.iter().any(|study| studies.contains(study)))
        .collect();
    let is_by_paper = groups.len() > 1;
    push(
        html,
        format_args!(
            "<section aria-labelledby=\"verdicts\"><h2 id=\"verdicts\">Verdicts</h2>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Verdicts by {0}\">\
             <table class=\"matrix\"><thead><tr><th scope=\"col\">{0}</th>",
            if is_by_paper { "paper" } else { "study" }
        ),
    );
    for outcome in OUTCOMES {
        push(html, format_args!("<th scope=\"col\">{}</th>", outcome_word(outcome)));
    }
    html.push_str("<th scope=\"col\">gates</th></tr></thead><tbody>\n");
    if is_by_paper {
        for group in groups {
            let first = group.studies.iter().find(|study| studies.contains(study));
            let href = first.map(|study| site.link(page, *study, "")).unwrap_or_default();
            let counts = OutcomeCounts::new(group.studies.iter().map(|study| &site.reports[*study]));
            let name =
                format!("{} <small>{}</small>", Escaped(&group.title), plural(counts.studies, "study"));
            push_matrix_row(html, (&href, &name), counts, &format!("paper={}", encode_path(&group.key)));
        }
    } else {
        for &study in studies {
            let report = &site.reports[study];
            let counts = OutcomeCounts::new(core::iter::once(report));
            let name = Escaped(&report.title).to_string();
            let filter = format!("study={}", encode_path(&site.places[study].id));
            push_matrix_row(html, (&site.link(page, study, ""), &name), counts, &filter);
        }
    }
    html.push_str("</tbody></table></div></section>\n");
}

/// Writes a row of the matrix. Each count links to its claims.
fn push_matrix_row(html: &mut String, (href, name): (&str, &str), counts: OutcomeCounts, filter: &str) {
    push(html, format_args!("<tr><th scope=\"row\"><a href=\"{href}\">{name}</a></th>"));
    for outcome in OUTCOMES {
        let (count, class) = (counts.of(outcome), class(outcome));
        if count == 0 {
            push(html, format_args!("<td class=\"none\">0</td>"));
        } else {
            let share = 100 * count / counts.claims().max(1);
            push(
                html,
                format_args!(
                    "<td class=\"{class}\" style=\"--share:{share}%\"><a href=\"#?{filter}&amp;verdict={class}\">{count} <span>{}</span></a></td>",
                    counted_word(outcome, count)
                ),
            );
        }
    }
    let gates = match counts.gates {
        0 => "none".to_owned(),
        gates if counts.gates_held == gates => format!("all {gates} hold"),
        gates => format!("{} of {gates} hold", counts.gates_held),
    };
    push(html, format_args!("<td>{gates}</td></tr>\n"));
}

/// Returns the word for a number of claims with this outcome.
const fn counted_word(outcome: Outcome, count: usize) -> &'static str {
    match outcome {
        Outcome::Holds if count != 1 => "hold",
        Outcome::Fails if count != 1 => "fail",
        outcome => outcome_word(outcome),
    }
}

/// Writes the conclusions of the papers. They are folded if there are several papers.
pub(super) fn push_conclusions(html: &mut String, site: &Site<'_>, studies: &[usize]) {
    let shown = site.groups.iter().filter(|group| group.studies.iter().any(|study| studies.contains(study)));
    let papers: Vec<_> = shown.filter_map(|group| Some((group, group.paper?))).collect();
    if papers.is_empty() {
        return;
    }
    let is_single = papers.len() == 1;
    push(
        html,
        format_args!(
            "<details class=\"conclusions\"{}><summary>Conclusions</summary>\n",
            if is_single { " open" } else { "" }
        ),
    );
    for (group, paper) in &papers {
        if !is_single {
            push(html, format_args!("<h2>{}</h2>\n", Escaped(&group.title)));
        }
        for paragraph in paper.paragraphs() {
            push(html, format_args!("<p>{}</p>\n", Escaped(&plain_text(paragraph))));
        }
    }
    html.push_str("</details>\n");
}

/// Removes links and code marks from a Markdown paragraph. Link targets are relative to the repository, so the page
/// could not open them.
fn plain_text(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((_, tail)) = after.split_once(')') else { break };
        let (start, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.push_str(start);
        text.push_str(label);
        rest = tail;
    }
    text.push_str(rest);
    text.replace('`', "").replace('\n', " ")
}

/// Writes the filters and the search field. They need the script, which shows them.
pub(super) fn push_filters(html: &mut String, site: &Site<'_>, studies: &[usize]) {
    html.push_str(
        "<form class=\"filters\" role=\"search\" aria-label=\"Filter claims and studies\" hidden>\n\
         <label>Search <input type=\"search\" name=\"q\" autocomplete=\"off\" placeholder=\"law, figure, words\"></label>\n",
    );
    let groups: Vec<_> = site
        .groups
        .iter()
        .filter(|group| group.studies.iter().any(|study| studies.contains(study)))
        .collect();
    if groups.len() > 1 {
        html.push_str("<label>Paper <select name=\"paper\"><option value=\"\">all</option>");
        for group in groups {
            push(
                html,
                format_args!("<option value=\"{}\">{}</option>", Escaped(&group.key), Escaped(&group.title)),
            );
        }
        html.push_str("</select></label>\n");
    }
    html.push_str("<label>Verdict <select name=\"verdict\"><option value=\"\">all</option>");
    for outcome in OUTCOMES {
        push(html, format_args!("<option value=\"{}\">{}</option>", class(outcome), outcome_word(outcome)));
    }
    html.push_str(
        "</select></label>\n<label class=\"check\"><input type=\"checkbox\" name=\"gate\" value=\"1\"> gates only</label>\n\
         <input type=\"hidden\" name=\"study\">\n<button type=\"reset\">Clear</button>\n<output class=\"count\" aria-live=\"polite\"></output>\n</form>\n",
    );
}

/// Writes the table of all claims, failures first.
pub(super) fn push_claims(html: &mut String, site: &Site<'_>, page: &str, studies: &[usize]) {
    let claims = studies.iter().flat_map(|&study| {
        site.reports[study].verdicts.iter().enumerate().map(move |(number, verdict)| (study, number, verdict))
    });
    let mut claims: Vec<(usize, usize, &Verdict)> = claims.collect();
    if claims.is_empty() {
        html.push_str("<p id=\"claims\">No study has claims.</p>\n");
        return;
    }
    claims.sort_by_key(|(.., verdict)| severity(verdict));
    let failed = claims.iter().filter(|(.., verdict)| verdict.outcome == Outcome::Fails).count();
    push(
        html,
        format_args!(
            "<section aria-labelledby=\"claims\"><h2 id=\"claims\">Claims{}</h2>\n<table class=\"claims-table\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">",
            if failed > 0 { ", failures first" } else { "" }
        ),
    );
    for header in ["verdict", "claim", "the paper", "ours", "required"] {
        push(html, format_args!("<th role=\"columnheader\" scope=\"col\">{header}</th>"));
    }
    html.push_str("</tr></thead><tbody role=\"rowgroup\">\n");
    for (study, number, verdict) in claims {
        push_claim_row(html, site, page, (study, number), verdict);
    }
    html.push_str(
        "</tbody></table>\n<p class=\"nothing\" hidden>No claim matches these filters.</p></section>\n",
    );
}

fn push_claim_row(
    html: &mut String,
    site: &Site<'_>,
    page: &str,
    (study, number): (usize, usize),
    verdict: &Verdict,
) {
    push(
        html,
        format_args!(
            "<tr role=\"row\" data-paper=\"{}\" data-study=\"{}\" data-verdict=\"{}\"{}><td role=\"cell\">",
            Escaped(&site.group_of(study).key),
            Escaped(&site.places[study].id),
            class(verdict.outcome),
            if verdict.gating { " data-gate=\"1\"" } else { "" }
        ),
    );
    push_badge(html, verdict.outcome);
    push_gate(html, verdict);
    push(
        html,
        format_args!(
            "</td><td role=\"cell\"><a href=\"{}\">{}</a> <small>{}</small></td>",
            Escaped(&site.link(page, study, &format!(":claim-{}", number + 1))),
            Escaped(&verdict.claim),
            Escaped(&site.reports[study].name)
        ),
    );
    for (label, text) in [
        ("the paper", verdict.paper.as_str()),
        ("ours", &format_measured(verdict)),
        ("required", &verdict.condition),
    ] {
        push(html, format_args!("<td role=\"cell\" data-label=\"{label}\">{}</td>", Escaped(text)));
    }
    html.push_str("</tr>\n");
}

/// Writes the mark of a gating claim.
pub(super) fn push_gate(html: &mut String, verdict: &Verdict) {
    if verdict.gating {
        html.push_str(" <span class=\"gate\" title=\"If a gate fails, the command fails.\">gate</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_plain_text() {
        assert_eq!(
            plain_text("See [the\nbook](../a.md) and `poseidon run`."),
            "See the book and poseidon run."
        );
        assert_eq!(plain_text("a [b] (c) [d](e"), "a [b] (c) [d](e");
    }
}
