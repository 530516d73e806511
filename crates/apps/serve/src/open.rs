//! Opens the page in a browser.
//!
//! All users of a machine can read the arguments of a process. The browser therefore opens a file that only this user
//! can read, and the file leads to the URL with the token.

use crate::error::ServeError;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file that leads a browser to the page. Dropping it removes the file.
#[derive(Debug)]
pub struct RedirectFile(PathBuf);

impl Drop for RedirectFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens an address in the user's browser. Keep the returned file until the server ends.
pub fn open_browser(url: &str) -> Result<RedirectFile, ServeError> {
    let file = write_redirect(url).map_err(ServeError::Browser)?;
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let child = Command::new(program)
        .arg(&file.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.map_err(ServeError::Browser).map(|_| file)
}

fn write_redirect(url: &str) -> io::Result<RedirectFile> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = std::env::temp_dir().join(format!("poseidon-serve-{name}.html"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
    let file_guard = RedirectFile(path);
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>Poseidon lab</title><meta http-equiv=\"refresh\" \
         content=\"0;url={url}\"><a href=\"{url}\">Poseidon lab</a>"
    )?;
    Ok(file_guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_can_read_the_file_and_it_is_removed() {
        let file = write_redirect("http://127.0.0.1:1/#token=x").expect("the folder is writable");
        let path = file.0.clone();
        assert!(
            fs::read_to_string(&path).expect("the file exists").contains("url=http://127.0.0.1:1/#token=x")
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&path).expect("the file exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(file);
        assert!(!path.exists());
    }
}
