//! Embeds the scenarios, so that the binary works without the repository. Also embeds the hash of the code that results
//! depend on, so that results from different code are not reused.

#[path = "src/code_hash.rs"]
mod code_hash;

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let package = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let repository = package.join("../../..");
    println!("cargo::rustc-env=POSEIDON_CODE={}", watched_hash(&repository, code_hash::CODE));
    println!("cargo::rustc-env=POSEIDON_LINUX_CODE={}", watched_hash(&repository, code_hash::LINUX_CODE));
    if std::env::var_os("CARGO_FEATURE_STACKS").is_some() {
        println!(
            "cargo::rustc-env=POSEIDON_STACKS_CODE={}",
            watched_hash(&repository, code_hash::STACKS_CODE)
        );
    }
    println!("cargo::rustc-env=POSEIDON_COMPILER={}", compiler());
    // Only some files of the lab are hashed, and some of them may be created later.
    println!("cargo::rerun-if-changed={}", repository.join("crates/lab/lab/src").display());
    let root = repository.join("scenarios");
    println!("cargo::rerun-if-changed={}", root.display());
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("scenarios.rs"), scenarios_code(&root)).expect("OUT_DIR is writable");
    fs::write(out.join("papers.rs"), papers_code(&root)).expect("OUT_DIR is writable");
}

/// Returns a Rust slice with the name and text of every scenario.
fn scenarios_code(root: &Path) -> String {
    let mut files = Vec::new();
    collect_files(root, "toml", &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(root).expect("the file is below the root").with_extension("");
        let name = name.to_string_lossy().replace('\\', "/");
        let path = file.canonicalize().expect("the file exists");
        writeln!(code, "    ({name:?}, include_str!({path:?})),").expect("writing to a string cannot fail");
    }
    code.push(']');
    code
}

/// Returns a Rust slice with the folder and README of every paper.
fn papers_code(root: &Path) -> String {
    let mut code = String::from("&[\n");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join("README.md").is_file()) {
        let path = folder.join("README.md").canonicalize().expect("the file exists");
        println!("cargo::rerun-if-changed={}", path.display());
        let name = folder.file_name().expect("the folder has a name").to_string_lossy();
        writeln!(code, "    Paper {{ folder: {name:?}, text: include_str!({path:?}) }},")
            .expect("writing to a string cannot fail");
    }
    code.push(']');
    code
}

/// Returns the code hash, and makes cargo watch the hashed files.
fn watched_hash(repository: &Path, paths: &[&str]) -> String {
    for path in paths.iter().chain([&code_hash::LOCK]).map(|path| repository.join(path)) {
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    code_hash::code_hash(repository, paths).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the name and version of the compiler. Results from other compilers are not reused.
fn compiler() -> String {
    let rustc = std::env::var("RUSTC").expect("cargo sets RUSTC");
    let output = std::process::Command::new(rustc).arg("-V").output();
    let version = String::from_utf8(output.expect("the compiler can run").stdout);
    version.expect("the version is valid UTF-8").split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Collects the files below a folder that have this extension.
fn collect_files(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, extension, files);
        } else if path.extension().is_some_and(|other| other == extension) {
            files.push(path);
        }
    }
}
