//! Drives the server over real TCP connections: access control, limits, runs, event streams and the end of the server.

mod client;

use client::{Client, QUICKSTART_LIKE, long_scenario, start_server, wait};
use core::time::Duration;
use serde_json::{Value, json};

#[test]
fn the_page_needs_no_token_and_the_api_does() {
    let server = start_server("token");
    let client = server.client();
    let page = client.get_plain("/", &[]);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<title>Poseidon lab</title>"));
    let policy = page.header("content-security-policy").expect("the page has a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for path in ["/api/start", "/api/schema", "/api/runs", "/api/scenario?name=small"] {
        let refused = client.get_plain(path, &[]);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.text().contains("token"), "{}", refused.text());
        assert_eq!(client.get_plain(path, &[("Authorization", "Bearer 00")]).status, 401, "{path}");
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    // A token in the query, in a cookie or with a wrong last digit does not count.
    let token = client.token();
    assert_eq!(client.get_plain(&format!("/api/runs?token={token}"), &[]).status, 401);
    assert_eq!(client.get_plain("/api/runs", &[("Cookie", &format!("token={token}"))]).status, 401);
    let wrong = format!("Bearer {}x", &token[..63]);
    assert_eq!(client.get_plain("/api/runs", &[("Authorization", &wrong)]).status, 401);
    let key = "0".repeat(64);
    assert_eq!(client.get(&format!("/files/{key}/small/scenario.toml")).status, 401);
    server.stop();
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let server = start_server("origin");
    let client = server.client();
    let port = server.port();
    let bearer = format!("Bearer {}", client.token());
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", "127.0.0.1:1", ""] {
        let request = format!(
            "GET /api/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(client.raw(request.as_bytes()).status, 403, "{host:?}");
    }
    let without_host = format!("GET /api/runs HTTP/1.0\r\nAuthorization: {bearer}\r\n\r\n");
    assert_eq!(client.raw(without_host.as_bytes()).status, 403);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", &format!("https://127.0.0.1:{port}")]
    {
        let headers = [("Authorization", bearer.as_str()), ("Origin", origin)];
        assert_eq!(client.get_plain("/api/runs", &headers).status, 403, "{origin}");
        assert_eq!(client.get_plain("/", &[("Origin", origin)]).status, 403, "{origin}");
    }
    for host in ["127.0.0.1", "localhost"] {
        let origin = format!("http://{host}:{port}");
        let headers = [("Authorization", bearer.as_str()), ("Origin", origin.as_str())];
        assert_eq!(client.get_plain("/api/runs", &headers).status, 200, "{origin}");
    }
    server.stop();
}

#[test]
fn large_and_malformed_requests_are_refused() {
    let server = start_server("large");
    let client = server.client();
    let body = vec![b' '; 10 << 20];
    assert_eq!(client.post_bytes("/api/check", &body).status, 413);
    assert_eq!(client.post_bytes("/api/runs", &body).status, 413);
    // The same without a length: chunk by chunk.
    assert_eq!(client.post_chunked("/api/check", 10 << 20).status, 413);
    for body in ["", "{", "[]", "{\"name\": 3}", "{\"name\":\"a\",\"text\":\"\",\"other\":1}"] {
        assert_eq!(client.post_bytes("/api/check", body.as_bytes()).status, 400, "{body}");
    }
    let long = client.post("/api/check", &json!({ "name": "long", "text": "#".repeat(300 << 10) }));
    assert!(long.json()["problem"]["message"].as_str().is_some_and(|text| text.contains("shorten")));
    for request in [
        &b"\r\n\r\n"[..],
        b"GET",
        b"\xff\xfe\xfd\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/runs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let status = client.try_raw(request).map(|answer| answer.status);
        assert!(status.is_none_or(|status| status >= 400), "{status:?}");
    }
    let header =
        format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX: {}\r\n\r\n", server.port(), "x".repeat(1 << 20));
    assert!(client.try_raw(header.as_bytes()).is_none_or(|answer| answer.status >= 400));
    assert_eq!(client.get("/nothing").status, 404);
    assert_eq!(client.get("/api/nothing").status, 404);
    assert_eq!(client.post("/api/start", &json!({})).status, 405);
    assert_eq!(client.get("/api/start").status, 200, "the server still works");
    server.stop();
}

#[test]
fn hostile_scenarios_give_an_error_with_a_line() {
    let server = start_server("hostile");
    let client = server.client();
    let check = |text: &str| client.post("/api/check", &json!({ "name": "x", "text": text })).json();
    let problem = |text: &str| check(text)["problem"].clone();
    let error = problem(&QUICKSTART_LIKE.replace("stop  =", "stp  ="));
    assert_eq!((error["line"].clone(), error["column"].clone()), (json!(3), json!(1)), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("did you mean \"stop\"")), "{error}");
    let error = problem("title = \"t\"\nlaw = = 3\n");
    assert_eq!((error["line"].clone(), error["column"].clone()), (json!(2), json!(7)), "{error}");
    let nested = format!("a = {}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let values: Vec<u32> = (0..1_000).collect();
    let sweeps = format!("{QUICKSTART_LIKE}\na = {values:?}\nb = {values:?}\nc = {values:?}\n");
    for text in [nested.as_str(), &sweeps, "\u{0}", "title = \"\\u0000\"", "[[[[", &"[a]\n".repeat(10_000)] {
        let error = problem(text);
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    }
    // The browser must not read other files of the machine.
    for file in ["/etc/passwd", "../Cargo.toml", "x/../../Cargo.toml"] {
        let text = format!(
            "{QUICKSTART_LIKE}\n[[traffic]]\nname = \"m\"\nkind = \"poisson-flows\"\nfrom = \"rack0.host[0-1]\"\nto = \"rack1.host[0-1]\"\nload = 0.1\nsizes = \"{file}\"\n"
        );
        let error = problem(&text.replace("[sweep]", "").replace("law = [\"poseidon\", \"swift\"]", ""));
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("outside the folder")),
            "{file}: {error}"
        );
    }
    for study in ["../..", "/etc", "..%2f..", ""] {
        assert_eq!(client.get(&format!("/api/stored?study={study}")).status, 404, "{study}");
    }
    assert_eq!(client.get("/api/scenario?file=../../Cargo.toml").status, 404);
    server.stop();
}

#[test]
fn a_run_is_watched_and_its_files_are_served() {
    let server = start_server("run");
    let client = server.client();
    let id = client.start_run(QUICKSTART_LIKE, "stop");
    let updates = client.events(id).read_to_end();
    let points: usize = updates
        .iter()
        .flat_map(|update| update["points"].as_array().cloned().unwrap_or_default())
        .map(|series| series[1][0].as_array().map_or(0, Vec::len))
        .sum();
    assert!(points > 100, "{points} points");
    let last = updates.last().expect("there is an update");
    assert_eq!(last["status"], "done", "{last}");
    let infos: Vec<String> = updates
        .iter()
        .flat_map(|update| update["series"].as_array().cloned().unwrap_or_default())
        .map(|series| {
            format!("{} {} {}", series["info"]["kind"], series["info"]["of"], series["info"]["law"])
        })
        .collect();
    for expected in
        ["\"rate\" \"flows\" \"poseidon\"", "\"rate\" \"flows\" \"swift\"", "\"queue\" \"queue\" \"swift\""]
    {
        assert!(infos.iter().any(|info| info == expected), "{infos:?}");
    }
    let answer = client.get(&format!("/api/runs/{id}")).json();
    let result = &answer["result"];
    assert_eq!(result["cells"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(result["verdicts"][0]["outcome"], "holds", "{}", result["verdicts"]);
    let rate = result["metrics"]
        .as_array()
        .expect("there are metrics")
        .iter()
        .find(|entry| entry["of"] == "flows" && entry["metric"] == "rate_gbps");
    assert!(rate.is_some_and(|rate| rate["values"][0]["value"].as_f64() > Some(10.0)), "{rate:?}");
    assert!(
        result["series"]["law poseidon"]["flows.rate_gbps"][0]
            .as_array()
            .is_some_and(|times| !times.is_empty())
    );
    // Everything that the command line writes can be downloaded.
    let key = client.get("/api/start").json()["file_key"].as_str().expect("there is a key").to_owned();
    let study = result["study"].as_str().expect("the study has a name");
    for file in ["scenario.toml", "verdicts.json", "figure-1.svg", "figure-1.csv", "report.html"] {
        let answer = client.get_plain(&format!("/files/{key}/{study}/{file}"), &[]);
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.body.is_empty(), "{file}");
        assert!(answer.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox")));
    }
    assert!(result["files"].as_array().is_some_and(|files| {
        files.iter().any(|file| file["path"].as_str().is_some_and(|path| path.ends_with(".parquet")))
    }));
    let archive = client.get_plain(&format!("/zip/{key}/{study}"), &[]);
    assert_eq!((archive.status, &archive.body[..4]), (200, &b"PK\x03\x04"[..]));
    for path in ["../../Cargo.toml", "%2e%2e/%2e%2e/Cargo.toml", "serve", "", "nothing.txt"] {
        assert!(
            [404, 400].contains(&client.get_plain(&format!("/files/{key}/{path}"), &[]).status),
            "{path}"
        );
    }
    // A second run of the same text finds its results.
    let id = client.start_run(QUICKSTART_LIKE, "stop");
    let last = client.events(id).read_to_end().pop().expect("there is an update");
    assert_eq!(
        (last["status"].clone(), last["progress"]["reused"].clone()),
        (json!("done"), json!(2)),
        "{last}"
    );
    let stored = client.get(&format!("/api/stored?study={study}")).json();
    assert_eq!(stored["result"]["hash"], result["hash"]);
    server.stop();
}

#[test]
fn selected_values_change_what_runs() {
    let server = start_server("select");
    let client = server.client();
    let check = |select: Value| {
        let text = QUICKSTART_LIKE
            .replace("racks = 2", "racks = \"$racks\"")
            .replace("[sweep]\n", "[sweep]\nracks = [2, 4]\n");
        client.post("/api/check", &json!({ "name": "x", "text": text, "select": select })).json()
    };
    let all = check(json!({}));
    assert_eq!((all["cells"].clone(), all["problem"].clone()), (json!(4), Value::Null), "{all}");
    assert_eq!(all["sweeps"][0], json!({ "name": "racks", "values": ["2", "4"] }));
    assert_eq!(check(json!({ "law": ["swift"] }))["cells"], 2);
    let quick = json!({ "name": "x", "text": QUICKSTART_LIKE, "quick": true, "select": { "law": ["hpcc"] } });
    let quick = client.post("/api/check", &quick).json();
    assert!(quick["problem"]["message"].as_str().is_some_and(|text| text.contains("quick form")), "{quick}");
    // A slider can select a value that the scenario does not list.
    assert_eq!(check(json!({ "law": ["swift"], "racks": ["3"] }))["cells"], 1);
    for select in [
        json!({ "law": ["swft"] }),
        json!({ "racks": ["x"] }),
        json!({ "none": ["1"] }),
        json!({ "law": [] }),
    ] {
        assert!(check(select.clone())["problem"]["message"].is_string(), "{select}");
    }
    server.stop();
}

#[test]
fn a_run_stops_with_its_tab_or_continues_as_chosen() {
    let server = start_server("tab");
    let client = server.client();
    for (on_close, expected) in [("stop", "stopped"), ("continue", "running")] {
        let id = client.start_run(&long_scenario(on_close), on_close);
        let mut events = client.events(id);
        while events.next_update().is_some_and(|update| update["points"].as_array().is_none_or(Vec::is_empty))
        {
        }
        drop(events);
        wait(Duration::from_secs(5));
        let mut status = client.status(id);
        for _ in 0..50 {
            if status == expected {
                break;
            }
            wait(Duration::from_millis(100));
            status = client.status(id);
        }
        assert_eq!(status, expected, "{on_close}");
        client.post(&format!("/api/runs/{id}/stop"), &json!({}));
        let last = client.events(id).read_to_end().pop().expect("there is an update");
        assert_eq!(last["status"], "stopped");
    }
    server.stop();
}

#[test]
fn runs_wait_in_a_short_queue_and_can_be_stopped() {
    let server = start_server("queue");
    let client = server.client();
    let running = client.start_run(&long_scenario("first"), "continue");
    let start = |name: &str| {
        client.post(
            "/api/runs",
            &json!({ "scenario": { "name": name, "text": long_scenario(name) }, "on_close": "continue" }),
        )
    };
    client.wait_for_status(running, "running");
    let waiting: Vec<u64> = (0..4)
        .map(|number| start(&format!("w{number}")).json()["id"].as_u64().expect("it is accepted"))
        .collect();
    let refused = start("one too many");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("wait until one of them ends"), "{}", refused.text());
    for id in &waiting {
        assert_eq!(client.post(&format!("/api/runs/{id}/stop"), &json!({})).json()["status"], "stopped");
    }
    assert_eq!(client.status(running), "running");
    client.post(&format!("/api/runs/{running}/stop"), &json!({}));
    client.wait_for_status(running, "stopped");
    assert_eq!(client.get("/api/runs/999").status, 404);
    server.stop();
}

#[test]
fn hundred_parallel_requests_are_answered() {
    let server = start_server("parallel");
    let client = server.client();
    let id = client.start_run(&long_scenario("parallel"), "continue");
    std::thread::scope(|scope| {
        let ask = |number: usize| {
            let client: Client = client.clone();
            scope.spawn(move || match number % 4 {
                0 => client.get("/api/start").status,
                1 => client.post("/api/check", &json!({ "name": "x", "text": QUICKSTART_LIKE })).status,
                2 => client.get_plain("/", &[]).status,
                _ => client.get("/api/runs").status,
            })
        };
        let threads: Vec<_> = (0..100).map(ask).collect();
        for thread in threads {
            assert_eq!(thread.join().expect("the client does not panic"), 200);
        }
    });
    // Event streams are limited, and closing one makes room for another.
    let mut streams: Vec<_> = (0..16).map(|_| client.events(id)).collect();
    assert!(streams.iter_mut().all(|stream| stream.status == 200));
    let refused = client.events(id);
    assert_eq!(refused.status, 429);
    drop(streams);
    wait(Duration::from_secs(3));
    assert_eq!(client.events(id).status, 200);
    client.post(&format!("/api/runs/{id}/stop"), &json!({}));
    server.stop();
}

#[test]
fn stopping_the_server_stops_everything() {
    let server = start_server("stop");
    let client = server.client();
    let id = client.start_run(&long_scenario("stop"), "continue");
    let mut events = client.events(id);
    while events.next_update().is_some_and(|update| update["status"] != "running") {}
    // An open event stream, an idle connection and half a request must not delay the end.
    let idle = client.connect();
    let half = client.connect_and_send(b"POST /api/check HTTP/1.1\r\nContent-Le");
    let end = server.stop();
    assert!(end.interrupted_runs && end.is_clean, "{end:?}");
    assert!(events.read_to_end().last().is_none_or(|update| update["status"] != "done"));
    drop((idle, half));
    assert!(client.try_raw(b"GET / HTTP/1.1\r\n\r\n").is_none(), "the port is closed");
    // Other tests have servers of their own if they run in the same process.
    if std::env::var_os("NEXTEST").is_some() {
        for _ in 0..50 {
            if server_threads().is_empty() {
                return;
            }
            wait(Duration::from_millis(20));
        }
        panic!("threads are left: {:?}", server_threads());
    }
}

/// Returns the names of the server's threads in this process.
fn server_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("serve-")).collect()
}

#[test]
fn a_client_that_reads_nothing_does_not_delay_a_run() {
    let server = start_server("slow");
    let client = server.client();
    let id = client.start_run(QUICKSTART_LIKE, "continue");
    let silent: Vec<_> = (0..8).map(|_| client.events(id)).collect();
    client.wait_for_status(id, "done");
    drop(silent);
    server.stop();
}
