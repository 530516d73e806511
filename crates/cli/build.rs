//! Puts the scenarios of the repository into the binary, so that it reproduces papers from wherever it is.

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where it is"))
        .join("../../scenarios");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
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
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
}
