//! Puts the scenarios of the repository into the binary, so that it reproduces papers from wherever it is, and the hash of all code that a
//! result depends on, so that no result of other code is taken for its own.

#[path = "src/code_hash.rs"]
mod code_hash;

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where it is"));
    let repository = own.join("../../..");
    println!("cargo::rustc-env=POSEIDON_CODE={}", watched_hash(&repository, code_hash::CODE));
    println!("cargo::rustc-env=POSEIDON_LINUX_CODE={}", watched_hash(&repository, code_hash::LINUX_CODE));
    println!("cargo::rustc-env=POSEIDON_COMPILER={}", compiler());
    // `bound.rs` and the like may come later.
    println!("cargo::rerun-if-changed={}", repository.join("crates/lab/lab/src").display());
    let root = own.join("../../../scenarios");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, "toml", &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).expect("it was found there").with_extension("");
        let name = name.to_string_lossy().replace('\\', "/");
        let path = file.canonicalize().expect("it was found");
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("a text takes everything");
    }
    code.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo says where to write"));
    fs::write(out.join("scenarios.rs"), code).expect("cargo's own folder can be written");
    let mut code = String::from("&[\n");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(&root).into_iter().flatten().flatten().map(|e| e.path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join("README.md").is_file()) {
        let path = folder.join("README.md").canonicalize().expect("it was found");
        println!("cargo::rerun-if-changed={}", path.display());
        let name = folder.file_name().expect("it was found there").to_string_lossy();
        writeln!(code, "    Paper {{ folder: {name:?}, text: include_str!({path:?}) }},")
            .expect("a text takes everything");
    }
    code.push(']');
    fs::write(out.join("papers.rs"), code).expect("cargo's own folder can be written");
}

/// Watches the code and computes its hash.
fn watched_hash(repository: &Path, places: &[&str]) -> String {
    for place in places.iter().chain([&code_hash::LOCK]).map(|place| repository.join(place)) {
        if place.exists() {
            println!("cargo::rerun-if-changed={}", place.display());
        }
    }
    code_hash::code_hash(repository, places).unwrap_or_else(|error| panic!("{error}"))
}

/// Name and version of the compiler: results of another one are another program's.
fn compiler() -> String {
    let rustc = std::env::var("RUSTC").expect("cargo says which");
    let output = std::process::Command::new(rustc).arg("-V").output();
    let said = String::from_utf8(output.expect("the compiler that builds this runs").stdout);
    said.expect("its version is text").split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, ending, files);
        } else if path.extension().is_some_and(|of| of == ending) {
            files.push(path);
        }
    }
}
