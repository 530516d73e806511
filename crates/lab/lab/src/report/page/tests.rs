//! Tests of whole pages.

use super::*;
use crate::judge::{CellVerdict, Outcome, Verdict};
use crate::report::Figure;
use crate::stats::Estimate;
use poseidon_figures::{Axis, BarSeries, Chart, LineSeries, Marks, Scale};

/// Returns a report without claims and figures.
pub(in crate::report) fn report(name: &str, title: &str) -> StudyReport {
    let json = serde_json::json!({
        "name": name, "title": title, "source": "a source", "about": "", "cut": null, "runs": 2, "interrupted": 0,
        "seeds": [1, 1], "wall_s": 1.0, "verdicts": [], "figure_files": []
    });
    serde_json::from_value(json).expect("the report is valid")
}

/// Returns a verdict with one cell.
pub(in crate::report) fn verdict(claim: &str, outcome: Outcome, gating: bool) -> Verdict {
    let cell = CellVerdict {
        cell: "law x".into(),
        measured: Estimate::from_values(&[1.5]),
        reason: None,
        unfinished_share: None,
        passed: 1,
        judged: 1,
        outcome,
    };
    Verdict {
        metric: String::new(),
        claim: claim.into(),
        paper: "2".into(),
        condition: "below 1".into(),
        paper_value: None,
        gating,
        outcome,
        note: if outcome == Outcome::NotComparable { "why".into() } else { String::new() },
        cells: if outcome == Outcome::NotComparable { Vec::new() } else { vec![cell] },
    }
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), scale: Scale::Linear, from: None, to: None }
}

fn chart(marks: Marks) -> Chart {
    Chart { title: "a chart".into(), x: axis("ms"), y: axis("Gbps"), marks, notes: Vec::new() }
}

fn with_figure(mut report: StudyReport, chart: Chart) -> StudyReport {
    let figure = Figure { title: chart.title.clone(), charts: vec![chart] };
    report.svg_figures.push(figure.to_svg());
    report.figures.push(figure);
    report
}

fn series(points: u32) -> Marks {
    let points = (0..points).map(|i| (f64::from(i), f64::from(i % 17))).collect();
    Marks::Lines(vec![LineSeries {
        name: "swift".into(),
        points,
        half_widths: Vec::new(),
        is_reference: false,
    }])
}

fn site<'a>(reports: &'a [StudyReport], papers: &'a [Paper<'a>]) -> Site<'a> {
    Site::new(reports, papers, vec![StudyFiles::default(); reports.len()], "the program")
}

/// Asserts that tags are nested, that ids are unique, and that links within the page have a target.
fn check_markup(html: &str) {
    const VOID: [&str; 5] = ["meta", "input", "!doctype", "br", "hr"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    let mut ids = BTreeSet::new();
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, tail) = after.split_once('>').expect("every tag ends");
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        if let Some(id) = tag.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next()) {
            assert!(ids.insert(id), "the id {id} occurs twice");
        }
        rest = match name.strip_prefix('/') {
            Some(closed) => {
                assert_eq!(open.pop(), Some(closed), "near {:.80}", tail);
                tail
            }
            None if VOID.contains(&name) || tag.ends_with('/') => tail,
            // Scripts and styles contain no tags.
            None if ["script", "style"].contains(&name) => {
                let end = tail.find(&format!("</{name}>")).expect("the script ends");
                &tail[end + name.len() + 3..]
            }
            None => {
                open.push(name);
                tail
            }
        };
    }
    assert!(open.is_empty(), "{open:?}");
    for link in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(link.starts_with('?') || ids.contains(link), "no target for #{link}");
    }
}

#[test]
fn hostile_text_cannot_leave_its_element() {
    let hostile = "\"><img src=x onerror=alert(1)><script>alert(2)</script>'</title></style>";
    let mut study = with_figure(
        report(hostile, hostile),
        chart(Marks::Bars {
            groups: vec![hostile.into()],
            series: vec![BarSeries { name: hostile.into(), values: vec![1.0], half_widths: Vec::new() }],
        }),
    );
    study.verdicts = vec![Verdict {
        metric: hostile.into(),
        claim: hostile.into(),
        paper: hostile.into(),
        condition: hostile.into(),
        note: hostile.into(),
        ..verdict("c", Outcome::Fails, true)
    }];
    (study.about, study.source) = (hostile.into(), hostile.into());
    (study.omissions, study.stale_reason) = (Some(hostile.into()), Some(hostile.into()));
    study.scenario_text = Some(format!("# {hostile}"));
    let reports = [study.clone(), StudyReport { name: "other".into(), ..study }];
    let papers = [Paper { folder: "", text: hostile }];
    for reports in [&reports[..], &reports[..1]] {
        let html = &render_pages(reports, &papers, hostile)[0].html;
        assert!(!html.contains("<img") && !html.contains("<script>alert"), "{html}");
        // The early script, the data and the page's script.
        assert_eq!(html.matches("<script").count(), 3);
        check_markup(html);
    }
}

#[test]
fn the_policy_allows_only_the_scripts_of_the_page() {
    let html = &render_pages(&[with_figure(report("a", "t"), chart(series(30)))], &[], "p")[0].html;
    let policy =
        html.split("Content-Security-Policy\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    let policy = policy.expect("the page has a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    let scripts: Vec<&str> =
        html.split("<script>").skip(1).filter_map(|rest| rest.split("</script>").next()).collect();
    assert_eq!(scripts.len(), 2);
    for script in scripts {
        use sha2::{Digest as _, Sha256};
        let hash = data::base64(&Sha256::digest(script));
        assert!(policy.contains(&format!("'sha256-{hash}'")), "the script's hash is in {policy}");
    }
}

#[test]
fn large_reports_are_split_by_paper_and_then_by_study() {
    let papers = [Paper { folder: "small", text: "# Small" }, Paper { folder: "large", text: "# Large" }];
    let study = |name: &str, points: u32| {
        let mut report = with_figure(report(name, &format!("title of {name}")), chart(series(points)));
        report.verdicts =
            vec![verdict("it is fast", Outcome::Holds, true), verdict("it is fair", Outcome::Fails, false)];
        report
    };
    let reports =
        [study("large/fig1", 2_000), study("large/fig2", 2_000), study("small/fig1", 30), study("own", 30)];
    let files = |max_bytes: usize| {
        let pages = render_site(site(&reports, &papers), max_bytes);
        pages.iter().for_each(|page| check_markup(&page.html));
        pages
    };
    assert_eq!(
        files(MAX_PAGE_BYTES).iter().map(|page| page.file.as_str()).collect::<Vec<_>>(),
        ["report.html"]
    );

    let whole = files(MAX_PAGE_BYTES)[0].html.len();
    let by_paper = files(whole - 1);
    let names: Vec<&str> = by_paper.iter().map(|page| page.file.as_str()).collect();
    assert_eq!(names, ["report.html", "report-large.html", "report-small.html", "report-others.html"]);
    let opening = &by_paper[0].html;
    assert!(opening.contains("href=\"report-large.html#large/fig1\"") && !opening.contains("<svg"));
    assert!(
        by_paper[1].html.contains("id=\"large/fig1\"") && by_paper[1].html.contains("href=\"report.html\"")
    );

    let limit = by_paper[1].html.len() - 1;
    let by_study = files(limit);
    let names: Vec<&str> = by_study.iter().map(|page| page.file.as_str()).collect();
    assert_eq!(names[1..4], ["report-large.html", "report-large-fig1.html", "report-large-fig2.html"]);
    assert!(by_study.iter().all(|page| page.html.len() <= limit));
    assert!(by_study[0].html.contains("href=\"report-large-fig1.html#large/fig1\""));
    // Every link to another page has a target there.
    for page in &by_study {
        for link in page.html.split("href=\"report").skip(1).filter_map(|rest| rest.split('"').next()) {
            let (file, id) = link.split_once('#').unwrap_or((link, "title"));
            let target =
                by_study.iter().find(|page| page.file == format!("report{file}")).expect("the page exists");
            assert!(target.html.contains(&format!("id=\"{id}\"")), "report{link}");
        }
    }
}

#[test]
fn an_empty_figure_says_why() {
    let empty = Chart {
        notes: vec!["2 seeds".into(), "no run has x.rate_gbps".into()],
        ..chart(Marks::Lines(Vec::new()))
    };
    let html = &render_pages(&[with_figure(report("a", "t"), empty)], &[], "p")[0].html;
    assert!(html.contains("“a chart” has no data: 2 seeds; no run has x.rate_gbps."), "{html}");
    let html = &render_pages(&[report("a", "t")], &[], "p")[0].html;
    assert!(html.contains("There is no figure: the scenario has no [[figure]]."));
    let mut not_run = StudyReport { runs: 0, ..report("a", "t") };
    not_run.verdicts = vec![verdict("c", Outcome::NotComparable, false)];
    assert!(render_pages(&[not_run], &[], "p")[0].html.contains("There is no figure: why."));
}

#[test]
fn failures_come_first_and_every_number_is_in_the_page() {
    let mut study = report("own", "Which law is fair?");
    study.verdicts = vec![
        verdict("holds here", Outcome::Holds, true),
        verdict("fails here", Outcome::Fails, false),
        verdict("gate fails here", Outcome::Fails, true),
    ];
    let reports = [study.clone(), StudyReport { name: "second".into(), ..study }];
    let html = &render_pages(&reports, &[], "p")[0].html;
    check_markup(html);
    let table = html.split("class=\"claims-table\"").nth(1).expect("there is a table of claims");
    let at = |text: &str| table.find(text).expect("the claim is listed");
    assert!(at("gate fails here") < at(">fails here") && at(">fails here") < at("holds here"));
    assert!(html.contains("2 studies, 6 claims, 4 runs: 2 hold, 4 fail."), "{html}");
    assert!(
        html.contains("<td>1 of 1</td>") && html.contains("<dd>1.50</dd>") && html.contains("<dd>2</dd>")
    );
    // The title of a page comes from its studies.
    assert!(html.contains("<title>Which law is fair?; Which law is fair?</title>"));
}

#[test]
fn a_figure_is_in_the_page_as_svg_and_as_data() {
    let html = &render_pages(&[with_figure(report("a", "t"), chart(series(5_000)))], &[], "p")[0].html;
    assert_eq!(html.matches("<svg").count(), 1);
    let data = html.split("id=\"report-data\">").nth(1).and_then(|rest| rest.split('<').next());
    let data = data.expect("the page has data");
    assert!(data.len() > 100 && data.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b)));
    assert!(
        html.contains("uPlot") && html.contains("Leon Sorokin"),
        "the page contains the library and its licence"
    );
    // A page without time series does not need the library.
    let html = &render_pages(&[with_figure(report("a", "t"), chart(series(4)))], &[], "p")[0].html;
    assert!(!html.contains("Leon Sorokin"));
}

#[test]
fn pages_of_an_earlier_report_are_removed_but_other_files_are_kept() {
    let folder = std::env::temp_dir().join(format!("poseidon-pages-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let old = render_pages(&[report("a", "t")], &[], "p")[0].html.clone();
    fs::write(folder.join("report-old.html"), old).expect("the folder is writable");
    fs::write(folder.join("report-mine.html"), "<p>my notes</p>").expect("the folder is writable");
    let page = write_page(&[report("a", "t")], &folder, &[], "p").expect("the page is written");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder exists")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        (page, names),
        (folder.join("report.html"), vec!["report-mine.html".into(), "report.html".into()])
    );
    fs::remove_dir_all(folder).expect("the folder exists");
}

#[test]
fn files_beside_the_page_are_linked() {
    let folder = std::env::temp_dir().join(format!("poseidon-files-{}", std::process::id()));
    let study = folder.join("p/my study");
    fs::create_dir_all(study.join("runs")).expect("the temporary folder is writable");
    for file in ["figure-2.svg", "figure-10.svg", "map-law swift.html", "report.html", "core.bin"] {
        fs::write(study.join(file), "").expect("the folder is writable");
    }
    let found = StudyFiles::find(&folder, "p/my study");
    let links: Vec<&str> = found.files.iter().map(|link| link.href.as_str()).collect();
    assert_eq!(links, ["p/my%20study/figure-2.svg", "p/my%20study/figure-10.svg"]);
    assert_eq!(
        (found.maps[0].name.as_str(), found.maps[0].href.as_str()),
        ("law swift", "p/my%20study/map-law%20swift.html")
    );
    fs::remove_dir_all(folder).expect("the folder exists");
}
