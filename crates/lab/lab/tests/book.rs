//! The book says what the code does.

use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs")
}

#[test]
fn reference_pages_are_those_of_the_types() {
    let pages = [
        ("scenarios.md", poseidon_lab::reference::scenarios()),
        ("results.md", poseidon_lab::reference::results()),
    ];
    for (name, made) in pages {
        let kept = fs::read_to_string(docs().join("reference").join(name)).unwrap_or_default();
        assert!(
            kept == made,
            "docs/reference/{name} is old; run `cargo run -p poseidon-lab --example reference`"
        );
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let summary = fs::read_to_string(docs().join("SUMMARY.md")).expect("the book has a summary");
    let mut pages = Vec::new();
    collect(&docs(), &mut pages);
    for page in &pages {
        let name = page.strip_prefix(docs()).expect("it was found there").to_string_lossy().into_owned();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "{name} is not in the summary"
        );
        let text = fs::read_to_string(page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let link = link.split('#').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let target = page.parent().expect("pages are in a folder").join(link);
            assert!(target.exists(), "{name} leads to {link}, which is not there");
        }
    }
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
}
