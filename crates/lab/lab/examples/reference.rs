//! Writes the book's reference pages: `cargo run -p poseidon-lab --example reference`.

fn main() -> std::io::Result<()> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference");
    std::fs::create_dir_all(&docs)?;
    std::fs::write(docs.join("scenarios.md"), poseidon_lab::reference::scenario_page())?;
    std::fs::write(docs.join("results.md"), poseidon_lab::reference::results_page())
}
