//! Embeds the scenarios, so that the package works without the repository, and the hash of the code that results depend on.

#[path = "../crates/apps/cli/src/code_hash.rs"]
#[expect(dead_code, reason = "the command needs more of it")]
mod code_hash;

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let package = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let repository = package.join("..");
    for path in code_hash::CODE.iter().chain([&code_hash::LOCK]) {
        println!("cargo::rerun-if-changed={}", repository.join(path).display());
    }
    let hash = code_hash::code_hash(&repository, code_hash::CODE).unwrap_or_else(|error| panic!("{error}"));
    println!("cargo::rustc-env=POSEIDON_CODE={hash}");
    println!("cargo::rustc-env=POSEIDON_COMPILER={}", compiler());
    let root = repository.join("scenarios");
    println!("cargo::rerun-if-changed={}", root.display());
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("scenarios.rs"), scenarios_code(&root)).expect("OUT_DIR is writable");
}

/// Returns a Rust slice with the name and text of every scenario.
fn scenarios_code(root: &Path) -> String {
    let mut files = Vec::new();
    collect_scenarios(root, &mut files);
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

/// Returns the name and version of the compiler, as the command states them.
fn compiler() -> String {
    let rustc = std::env::var("RUSTC").expect("cargo sets RUSTC");
    let output = std::process::Command::new(rustc).arg("-V").output().expect("the compiler can run");
    let version = String::from_utf8(output.stdout).expect("the version is valid UTF-8");
    version.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn collect_scenarios(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_scenarios(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
}
