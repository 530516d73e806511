//! Compiles the BPF programs in `bpf/` with `$CLANG`, which defaults to clang-19.
//!
//! ```text
//! bpf/NAME.bpf.c ──clang -target bpf──> $OUT_DIR/NAME.bpf.o ──include_bytes!──> this crate
//! ```
//!
//! The crate embeds plain objects instead of generated skeletons. A skeleton would only avoid looking up maps by name,
//! and it would add `unsafe` code and a second libbpf build.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys exports the path to its headers");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut sources: Vec<PathBuf> =
        fs::read_dir("bpf").expect("the folder bpf exists").flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    for source in sources {
        let object = out.join(source.with_extension("o").file_name().expect("a source file has a name"));
        compile(&clang, &headers, &source, &object);
    }
}

fn compile(clang: &str, headers: &str, source: &Path, object: &Path) {
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let result = Command::new(clang)
        // The loader needs the BTF types that -g generates. Every kernel since 5.1 supports instruction set v3.
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fno-stack-protector"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        // The same bytes in every folder: the line numbers that the kernel's verifier prints have file names.
        .arg(format!("-ffile-prefix-map={package}=/poseidon/crates/hosts/linux"))
        .arg(format!("-ffile-prefix-map={headers}=/libbpf"))
        .args(["-I", headers, "-c"])
        .args([source, Path::new("-o"), object])
        .status();
    let error = match result {
        Ok(status) if status.success() => return,
        Ok(status) => format!("{clang} could not compile {}: {status}", source.display()),
        Err(error) => format!(
            "{clang} is missing ({error}): apt-get install clang-19, or .ci/install, or CLANG=your-clang; \
             only crates/hosts/linux needs it"
        ),
    };
    println!("cargo::error={error}");
    exit(1);
}
