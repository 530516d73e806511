//! The self-contained page of a map.

use super::MapError;
use super::description::Description;
use super::encode::Columns;
use super::flows::Flows;
use super::network::MapNetwork;
use super::sampling::MapSamples;
use crate::embed::{base64, compress_base64};
use poseidon_plan::Plan;
use sha2::{Digest, Sha256};

/// The maximum size of a page.
pub(super) const MAX_PAGE_BYTES: usize = 3_000_000;

const SCRIPT: &str = concat!(
    include_str!("page/data.js"),
    include_str!("page/drawing.js"),
    include_str!("page/panels.js"),
    include_str!("page/main.js")
);
const STYLE: &str = include_str!("page/style.css");
const BODY: &str = include_str!("page/body.html");

/// The run that a map shows.
#[derive(Clone, Copy, Debug)]
pub struct MapRun<'a> {
    /// The study name.
    pub study: &'a str,
    /// The title of the scenario.
    pub title: &'a str,
    /// The cell, as the command prints it; empty if there is no sweep.
    pub cell: &'a str,
    /// The seed.
    pub seed: u64,
    /// The program that made the run.
    pub program: &'a str,
}

/// Renders the page of a map. The steps of the slider become longer until the page has at most [`MAX_PAGE_BYTES`].
pub(super) fn render_map(
    run: &MapRun<'_>,
    plan: &Plan,
    network: &MapNetwork,
    flows: &Flows,
    mut samples: MapSamples,
) -> Result<String, MapError> {
    if samples.steps.is_empty() {
        return Err(MapError::NoSamples { every: samples.every });
    }
    loop {
        let page = render_once(run, plan, network, flows, &samples)?;
        if page.len() <= MAX_PAGE_BYTES {
            return Ok(page);
        }
        if samples.steps.len() == 1 {
            return Err(MapError::TooLarge { size: page.len().into(), limit: MAX_PAGE_BYTES.into() });
        }
        samples.halve();
    }
}

fn render_once(
    run: &MapRun<'_>,
    plan: &Plan,
    network: &MapNetwork,
    flows: &Flows,
    samples: &MapSamples,
) -> Result<String, MapError> {
    let data = Columns::new(network, samples);
    let description = Description::new(plan, network, flows, samples, &data);
    let description = compress_base64(&serde_json::to_vec(&description)?);
    let hash = |text: &str| base64(&Sha256::digest(text));
    let mut heading = format!("Map of {}", run.study);
    if !run.cell.is_empty() {
        heading.push_str(&format!(", {}", run.cell));
    }
    let heading = escape_html(&heading);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; \
         style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{heading}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{heading}</h1>\n<p>{}, seed {}. {}.</p>\n</header>\n\
         {BODY}<script type=\"application/octet-stream;base64\" id=\"description\">{description}</script>\n\
         <script type=\"application/octet-stream;base64\" id=\"samples\">{}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        hash(SCRIPT),
        hash(STYLE),
        escape_html(run.title),
        run.seed,
        escape_html(run.program),
        compress_base64(&data.bytes),
    ))
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::grouping::Detail;
    use crate::map::record_map;
    use crate::map::sampling::Step;
    use crate::study::Study;
    use poseidon_plan::Topology;
    use poseidon_plan::random::RandomKey;
    use poseidon_sim::Simulator;
    use poseidon_types::Picos;

    fn simulator() -> Simulator {
        Simulator::with_threads(core::num::NonZeroU32::MIN)
    }

    /// Draws the map of a scenario's first cell.
    fn draw(scenario: &str) -> String {
        let study = Study::read("map.toml", scenario, false).expect("the scenario is valid");
        let resolved = study.resolve(&study.cells[0], 1, &simulator()).expect("the scenario is valid");
        let title = &study.scenario().title;
        let run = MapRun { study: &study.name, title, cell: "law <b>", seed: 1, program: "test & program" };
        record_map(&run, &resolved, Picos::ZERO..Picos::MAX, &simulator()).expect("the run is valid")
    }

    /// Decodes an embedded block.
    fn decode(page: &str, id: &str) -> Vec<u8> {
        let start = page.find(&format!("id=\"{id}\">")).expect("the block exists") + id.len() + 6;
        let text = &page[start..start + page[start..].find('<').expect("the block ends")];
        let sextet = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for group in text.as_bytes().chunks(4) {
            let digits: Vec<u32> =
                group.iter().filter(|c| **c != b'=').map(|c| u32::from(sextet(*c))).collect();
            let bits = digits.iter().enumerate().fold(0, |bits, (i, digit)| bits | digit << (18 - 6 * i));
            bytes.extend(&bits.to_be_bytes()[1..digits.len()]);
        }
        miniz_oxide::inflate::decompress_to_vec(&bytes).expect("the block is compressed")
    }

    fn description(page: &str) -> serde_json::Value {
        serde_json::from_slice(&decode(page, "description")).expect("the description is JSON")
    }

    const INCAST: &str = r#"
source = "none"
title = "</title><script>alert(1)</script>"
law = "poseidon"
stop = "200 us"
[topology]
kind = "star"
hosts = 9
link = { rate = "100 Gbps", delay = "1 us" }
[[traffic]]
name = "</script><script>alert(2)</script>"
kind = "long-flows"
from = "host[0-7]"
to = "host8"
"#;

    #[test]
    fn hostile_names_stay_text() {
        let page = draw(INCAST);
        assert!(!page.contains("alert(1)</script>") && !page.contains("<script>alert"), "{}", &page[..900]);
        assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert(1)"));
        assert!(page.contains("law &lt;b&gt;") && page.contains("test &amp; program"));
        assert_eq!(page.matches("</script>").count(), 3, "two blocks of data and the script");
        let group = &description(&page)["groups"][0]["name"];
        assert_eq!(group, "</script><script>alert(2)</script>");
    }

    #[test]
    fn page_contains_the_worst_queue_and_the_route() {
        let page = draw(INCAST);
        let net = description(&page);
        assert_eq!(net["boxes"].as_array().map(Vec::len), Some(10), "nine hosts and a switch");
        assert_eq!(net["flows"][3]["names"], serde_json::json!(["rack0.host3", "rack0.host8"]));
        // The only hop of every flow is the port to the receiver, which has the longest queue.
        assert_eq!(net["flows"][3]["route"], serde_json::json!([8]));
        assert_eq!(net["peaks"][0]["names"], serde_json::json!(["rack0", "rack0.host8"]));
        let steps = usize::try_from(net["steps"].as_u64().expect("a number")).expect("a small number");
        let samples = decode(&page, "samples");
        assert_eq!(samples.len(), 5 * 9 * steps);
        // Late in the run, the port to the receiver is busy and the others carry ACKs.
        let load = |channel: usize| samples[channel * steps + steps - 2];
        assert!(load(8) >= 190 && load(0) < 10, "{} {}", load(8), load(0));
        let queue_at_peak = net["peaks"][0]["bytes"].as_u64();
        let (low, high) = (&samples[9 * steps..18 * steps], &samples[18 * steps..27 * steps]);
        let unit = net["queue_unit"].as_u64().expect("a number");
        let largest = low.iter().zip(high).map(|(low, high)| u64::from(*low) | u64::from(*high) << 8).max();
        assert_eq!(
            largest.map(|largest| largest * unit),
            queue_at_peak.map(|peak| peak.div_ceil(unit) * unit)
        );
    }

    #[test]
    fn policy_allows_only_the_embedded_script_and_style() {
        let page = draw(INCAST);
        let between = |start: &str, end: &str| {
            let from = page.find(start).expect("the element exists") + start.len();
            &page[from..from + page[from..].find(end).expect("the element ends")]
        };
        let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text)));
        let policy = between("http-equiv=\"Content-Security-Policy\" content=\"", "\"");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains(&hash(between("<script>", "</script>"))));
        assert!(policy.contains(&hash(between("<style>", "</style>"))));
        for forbidden in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn a_clos_of_1024_hosts_fits_on_a_page() {
        let page = draw(
            r#"
title = "1,024 hosts"
source = "none"
law = "poseidon"
stop = "100 us"
[topology]
kind = "clos"
pods = 4
racks = 8
hosts = 32
aggregation = 8
cores = 4
host-link = { rate = "100 Gbps", delay = "500 ns" }
[[traffic]]
name = "pairs"
kind = "long-flows"
from = "host[0-511]"
to = "host[512-1023]"
"#,
        );
        assert!(page.len() <= MAX_PAGE_BYTES, "{}", page.len());
        let net = description(&page);
        assert_eq!(net["detail"], "cells");
        // 1,024 ports to hosts, and two directions of 256 rack links and 128 core links.
        assert_eq!(net["channels"].as_array().map(Vec::len), Some(1_024 + 2 * (256 + 128)));
        assert!(net["steps"].as_u64().is_some_and(|steps| steps >= 30), "{}", net["steps"]);
        assert_eq!(net["flows"].as_array().map(Vec::len), Some(512));
    }

    /// Random samples do not compress.
    #[test]
    fn steps_become_longer_until_the_page_is_small_enough() {
        let link = poseidon_testkit::plans::LINK;
        let plan = poseidon_testkit::plans::plan(Topology::fat_tree(16, link), "poseidon", &[]);
        let network = MapNetwork::new(&plan).expect("below the limits");
        assert_eq!((network.detail(), network.channels.len()), (Detail::Cells, 1_024 + 4 * 1_024));
        let channels = network.channels.len();
        let steps = 128_u64;
        let random = |step: u64, column: u64, bits: u32| -> Vec<u64> {
            let random = RandomKey::new(step, "samples").nth(column);
            (0..channels as u64).map(|channel| random.nth(channel).bits() >> (64 - bits)).collect()
        };
        let step = |index: u64| Step {
            end: Picos::new((index + 1) * 1_000_000),
            // 200 Gbps for a microsecond are 25 kB.
            sent: random(index, 0, 14).into_iter().map(|bytes| bytes as f64).collect(),
            queued: random(index, 1, 16),
            delay: random(index, 2, 16),
        };
        let samples = MapSamples {
            every: Picos::new(1_000_000),
            step: Picos::new(1_000_000),
            steps: (0..steps).map(step).collect(),
            peaks: Vec::new(),
            spans: Vec::new(),
            drops: 0,
            from: Picos::ZERO,
        };
        let run = MapRun { study: "random", title: "", cell: "", seed: 1, program: "" };
        let page = render_map(&run, &plan, &network, &Flows::default(), samples).expect("the page fits");
        assert!(page.len() <= MAX_PAGE_BYTES, "{}", page.len());
        let net = description(&page);
        assert_eq!((&net["steps"], &net["step_ps"]), (&64.into(), &2_000_000.into()));
    }

    #[test]
    fn runs_without_samples_are_rejected() {
        let plan =
            poseidon_testkit::plans::plan(Topology::star(2, poseidon_testkit::plans::LINK), "poseidon", &[]);
        let network = MapNetwork::new(&plan).expect("below the limits");
        let every = Picos::new(5_000_000);
        let (peaks, spans) = (Vec::new(), Vec::new());
        let samples =
            MapSamples { every, step: every, steps: Vec::new(), peaks, spans, drops: 0, from: Picos::ZERO };
        let run = MapRun { study: "empty", title: "", cell: "", seed: 1, program: "" };
        let error = render_map(&run, &plan, &network, &Flows::default(), samples).expect_err("no samples");
        assert!(error.to_string().contains("5 us"), "{error}");
    }
}
