//! Starts `poseidon serve` as a process.

use std::process::Command;

fn poseidon() -> Command {
    Command::new(env!("CARGO_BIN_EXE_poseidon"))
}

#[cfg(not(feature = "serve"))]
#[test]
fn a_build_without_the_feature_explains_it() {
    let output = poseidon().arg("serve").output().expect("the command runs");
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--features serve"));
    assert!(output.stdout.is_empty());
}

#[cfg(feature = "serve")]
mod with_server {
    use super::poseidon;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    /// A running command. Dropping it kills the process.
    struct Served {
        child: Child,
        port: u16,
        token: String,
        folder: PathBuf,
    }

    impl Drop for Served {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn start(name: &str, arguments: &[&str]) -> Served {
        let folder = std::env::temp_dir().join(format!("poseidon-cli-serve-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        let mut command = poseidon();
        command.args(["serve", "--output"]).arg(folder.join("results")).args(arguments).current_dir(&folder);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the command prints its URL");
        let (address, token) = line.trim().split_once("/#token=").expect("the URL has a token");
        let port = address.strip_prefix("http://127.0.0.1:").expect("the address is local").parse();
        Served { child, port: port.expect("the URL has a port"), token: token.to_owned(), folder }
    }

    impl Served {
        fn request(&self, method: &str, path: &str, body: &str) -> String {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
            let Self { port, token, .. } = self;
            let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close");
            let head = format!("{head}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}", body.len());
            write!(stream, "{head}\r\n\r\n{body}").expect("the server reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("the server answers");
            answer
        }

        /// Sends SIGINT, as Ctrl-C does, and returns the exit code.
        fn interrupt(mut self) -> Option<i32> {
            let id = self.child.id().to_string();
            let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill exists");
            assert!(sent.success());
            self.child.wait().expect("the command ends").code()
        }
    }

    #[test]
    fn an_idle_server_ends_with_success() {
        let served = start("idle", &[]);
        assert!(served.request("GET", "/api/runs", "").starts_with("HTTP/1.1 200"));
        assert!(served.request("GET", "/api/scenario?name=quickstart", "").contains("two busy links"));
        let port = served.port;
        assert_eq!(served.interrupt(), Some(0));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nothing listens any more");
    }

    #[test]
    fn a_run_in_progress_is_interrupted() {
        let served = start("busy", &[]);
        let text = "title = \"t\"\nsource = \"s\"\nstop = \"60 s\"\n[topology]\nkind = \"poseidon-clos\"\nracks = 2\n\
                    [[traffic]]\nname = \"flows\"\nkind = \"long-flows\"\nfrom = \"rack0.host[0-3]\"\n\
                    to = \"rack1.host0\"\n[observe]\nsample = \"1 ms\"\n";
        let scenario = serde_json::json!({ "name": "long", "text": text });
        let body = serde_json::json!({ "scenario": scenario, "on_close": "continue" }).to_string();
        let answer = served.request("POST", "/api/runs", &body);
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        while !served.request("GET", "/api/runs", "").contains("\"running\"") {}
        assert_eq!(served.interrupt(), Some(130));
    }

    #[test]
    fn a_port_in_use_is_a_usage_error() {
        let served = start("port", &[]);
        let port = served.port.to_string();
        let output = poseidon().args(["serve", "--port", &port]).current_dir(&served.folder).output();
        let output = output.expect("the command runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("choose another --port"));
    }
}
