//! Puts the scenarios of the repository into the binary, so that it reproduces papers from wherever it is, and the hash of all code that a
//! result depends on, so that no result of other code is taken for its own.

use core::fmt::Write as _;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where it is"));
    println!("cargo::rustc-env=POSEIDON_CODE={}", code_hash(&own.join(".."), &CODE));
    println!("cargo::rustc-env=POSEIDON_LINUX_CODE={}", code_hash(&own.join(".."), &LINUX_CODE));
    let root = own.join("../../scenarios");
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

/// What a summary depends on: the simulator and all below it, and of the lab what makes plans and numbers. How results are judged, drawn and
/// printed is not among it, and neither are scenarios: a plan has a hash of its own.
const CODE: [&str; 12] = [
    "types/src",
    "laws/src",
    "policies/src",
    "wire/src",
    "models/src",
    "plan/src",
    "sim/src",
    "lab/src/analytic",
    "lab/src/reduce",
    "lab/src/resolve",
    "lab/src/oracle.rs",
    "lab/src/stats.rs",
];

/// What a summary of real packets depends on beside.
const LINUX_CODE: [&str; 3] = ["linux/src", "linux/bpf", "testbed/src"];

/// The hash of code, of the crates that it computes with and of the compiler.
fn code_hash(crates: &Path, places: &[&str]) -> String {
    let mut files = Vec::new();
    for place in places.iter().map(|place| crates.join(place)) {
        println!("cargo::rerun-if-changed={}", place.display());
        if place.is_file() {
            files.push(place);
        } else {
            ["rs", "c", "h"].iter().for_each(|kind| collect(&place, kind, &mut files));
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    let lock = crates.join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let lock = fs::read_to_string(lock).expect("a workspace has one");
    let computes = |package: &&str| {
        ["libm", "zerocopy"].iter().any(|name| package.contains(&format!("name = {name:?}\n")))
    };
    lock.split("[[package]]").filter(computes).for_each(|package| hash.update(package));
    let compiler =
        std::process::Command::new(std::env::var("RUSTC").expect("cargo says which")).arg("-V").output();
    hash.update(compiler.expect("the compiler that builds this runs").stdout);
    for file in files {
        hash.update(fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, ending, files);
        } else if path.extension().is_some_and(|of| of == ending) {
            files.push(path);
        }
    }
}
