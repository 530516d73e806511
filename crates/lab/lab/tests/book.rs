//! Checks that the book agrees with the code.

use std::fs;
use std::path::{Path, PathBuf};

fn docs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs")
}

#[test]
fn reference_pages_match_the_types() {
    let pages = [
        ("scenarios.md", poseidon_lab::reference::scenario_page()),
        ("results.md", poseidon_lab::reference::results_page()),
    ];
    for (name, generated) in pages {
        let stored = fs::read_to_string(docs_folder().join("reference").join(name)).unwrap_or_default();
        assert!(
            stored == generated,
            "docs/reference/{name} is out of date; run `cargo run -p poseidon-lab --example reference`"
        );
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_target_exists() {
    let summary = fs::read_to_string(docs_folder().join("SUMMARY.md")).expect("the book has a summary");
    let mut pages = Vec::new();
    collect_pages(&docs_folder(), &mut pages);
    for page in &pages {
        let name =
            page.strip_prefix(docs_folder()).expect("the page is below docs").to_string_lossy().into_owned();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "{name} is not in the summary"
        );
        let text = fs::read_to_string(page).expect("the page can be read");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let link = link.split('#').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let target = page.parent().expect("the page is in a folder").join(link);
            assert!(target.exists(), "{name} links to {link}, which does not exist");
        }
    }
}

fn collect_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}
