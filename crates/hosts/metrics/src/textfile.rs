//! Writes metrics into a file, for the textfile collector of the node exporter.

use std::fs;
use std::io;
use std::path::Path;

/// Replaces a file with this text. A reader sees the old or the new text, never a part.
pub fn write_textfile(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // The collector reads only files that end in `.prom`.
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("poseidon-textfile-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder is writable");
        let path = folder.join("poseidon.prom");
        for text in ["a 1\n", "b 2\n"] {
            write_textfile(&path, text).expect("the folder is writable");
            assert_eq!(fs::read_to_string(&path).expect("the file exists"), text);
        }
        assert_eq!(fs::read_dir(&folder).expect("the folder exists").count(), 1);
        assert!(write_textfile(&folder.join("missing/a.prom"), "").is_err());
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
