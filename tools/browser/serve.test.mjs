// Drives `poseidon serve` in a real browser: POSEIDON=path/to/poseidon node --test serve.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage } from "./browser.mjs";

const POSEIDON = process.env.POSEIDON ?? "poseidon";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "poseidon-serve-"));
let browser, server, url, page;
const problems = [];

/** Starts `poseidon serve` and returns the process and the URL that it prints. */
function startServer(output) {
  const child = spawn(POSEIDON, ["serve", "--output", output], { stdio: ["ignore", "pipe", "inherit"] });
  const address = new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
      if (text.includes("\n")) resolve(text.trim());
    });
    child.on("exit", (code) => reject(new Error(`poseidon serve ended with code ${code}`)));
  });
  return { child, address };
}

/** Waits for the end of a process and returns its exit code. */
const ended = (child) => new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));

before(async () => {
  const started = startServer(folder);
  server = started.child;
  url = await started.address;
  browser = await launch();
  page = await openPage(browser, "about:blank", { width: 1280, height: 900 });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => {
    if (!/^(http:\/\/127\.0\.0\.1:|data:|blob:|about:)/.test(request.url())) problems.push(`request to ${request.url()}`);
  });
  await page.goto(url, { waitUntil: "load" });
  await page.waitForSelector("html[data-ready]");
});

after(async () => {
  await browser?.close();
  if (server?.exitCode === null) {
    server.kill("SIGINT");
    await ended(server);
  }
  rmSync(folder, { recursive: true, force: true });
});

const text = (selector) => page.$eval(selector, (node) => node.textContent);
const setText = (value) => page.$eval("#text", (area, content) => {
  area.value = content;
  area.dispatchEvent(new Event("input"));
}, value);
const waitForText = (selector, pattern) => page.waitForFunction(
  (where, source) => new RegExp(source).test(document.querySelector(where)?.textContent ?? ""), { timeout: 60_000 }, selector, pattern);

test("the address bar keeps no token, and another address needs one", async () => {
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#token=[0-9a-f]{64}$/);
  assert.ok(!page.url().includes("token"), page.url());
  const context = await browser.createBrowserContext();
  const other = await context.newPage();
  await other.goto(url.split("#")[0]);
  await other.waitForSelector("#notice:not([hidden])");
  assert.match(await other.$eval("#notice", (node) => node.textContent), /no token/);
  await context.close();
});

test("the quickstart shows its first points within a second of pressing Run", async () => {
  await waitForText("#estimate", "9 runs");
  const millis = await page.evaluate(() => new Promise((resolve) => {
    const charts = document.getElementById("charts");
    const start = performance.now();
    new MutationObserver((_, observer) => {
      if (Number(charts.dataset.points) > 0) {
        observer.disconnect();
        // The plot is drawn before the browser paints the next frame.
        requestAnimationFrame(() => resolve(performance.now() - start));
      }
    }).observe(charts, { attributes: true, attributeFilter: ["data-points"] });
    document.getElementById("run").click();
  }));
  console.log(`first points after ${millis.toFixed(0)} ms`);
  assert.ok(millis < 1000, `${millis} ms`);
  const first = Number(await page.$eval("#charts", (node) => node.dataset.points));
  await page.waitForFunction((count) => Number(document.getElementById("charts").dataset.points) > count, {}, first);
  await page.waitForSelector("#result h3", { timeout: 120_000 });
  assert.match(await text("#progress-text"), /^done: 9 of 9 runs/);
});

test("the result has claims, numbers, figures and files", async () => {
  await waitForText("#answer", "All 2 claims hold: Poseidon's victim gets its fair share \\(victim.share ");
  const claims = await page.$$eval("#result table:first-of-type .outcome", (nodes) => nodes.map((node) => node.textContent));
  assert.deepEqual(claims, ["holds", "holds"]);
  const charts = await page.$$eval("#charts figcaption", (nodes) => nodes.map((node) => node.textContent));
  for (const title of ["victim: rate", "first: rate per flow (mean of 3)", "last-queue: longest queue"]) assert.ok(charts.includes(title), charts.join());
  const images = await page.$$eval("#result img", (nodes) => nodes.map((node) => node.naturalWidth));
  assert.ok(images.length === 3 && images.every((width) => width > 0), images.join());
  const hrefs = await page.$$eval("#result a", (nodes) => nodes.map((node) => node.href));
  const archive = await page.evaluate(async (address) => {
    const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
    return [bytes.length, ...bytes.slice(0, 2)];
  }, hrefs.find((href) => href.includes("/zip/")));
  assert.ok(archive[0] > 10_000 && archive[1] === 0x50 && archive[2] === 0x4b, archive.join());
  const report = await browser.newPage();
  const answer = await report.goto(hrefs.find((href) => href.endsWith("report.html")));
  assert.equal(answer.status(), 200);
  assert.match(await report.content(), /two busy links/);
  assert.match(answer.headers()["content-security-policy"], /^sandbox/);
  await report.close();
});

test("the colour of a law is the same in all plots", async () => {
  const colours = await page.evaluate(() => {
    const result = {};
    for (const row of document.querySelectorAll("#charts .legend li")) {
      const colour = row.querySelector("line").getAttribute("stroke");
      (result[row.textContent] ??= new Set()).add(colour);
    }
    return Object.entries(result).map(([label, set]) => [label, [...set]]);
  });
  assert.equal(colours.length, 3);
  for (const [label, set] of colours) assert.equal(set.length, 1, `${label}: ${set}`);
  assert.equal(new Set(colours.map(([, [colour]]) => colour)).size, 3);
});

test("an error is shown at its line, and the text is completed from the schema", async () => {
  const original = await page.$eval("#text", (area) => area.value);
  await setText(original.replace('stop  = "12 ms"', 'stp  = "12 ms"'));
  await waitForText("#problem", "did you mean");
  assert.match(await text("#problem"), /^Line 7: there is no key "stp" here; did you mean "stop"\?/);
  assert.equal(await text("#gutter .bad"), "7");
  assert.equal(await page.$eval("#run", (button) => button.disabled), true);
  await page.click("#problem button");
  assert.equal(await page.$eval("#text", (area) => area.value.slice(0, area.selectionStart).split("\n").length), 7);
  // Complete a key and one of its values with the keyboard.
  await setText(`${original}\n[transport]\n`);
  await page.$eval("#text", (area) => { area.focus(); area.setSelectionRange(area.value.length, area.value.length); });
  await page.keyboard.type("spr");
  await page.waitForSelector("#completions:not([hidden])");
  assert.match(await text("#completions [aria-selected=true]"), /^spray/);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#completions:not([hidden])");
  await page.keyboard.press("Enter");
  assert.match(await page.$eval("#text", (area) => area.value), /\nspray = true$/);
  await setText(original);
  await waitForText("#estimate", "nothing to compute");
});

test("typing finished values does not accept completions", async () => {
  const before = await page.$eval("#text", (area) => area.value);
  await setText("");
  await page.focus("#text");
  await page.keyboard.type('[laws.careful]\nbase = "poseidon"\nstep = 0.1\n');
  assert.equal(await page.$eval("#text", (area) => area.value), '[laws.careful]\nbase = "poseidon"\nstep = 0.1\n');
  await setText(before);
});

test("the values of a sweep change what runs, and two runs are compared", async () => {
  await page.click("#sweep-list input[value=hpcc]");
  await waitForText("#estimate", "6 runs");
  await page.click("#run");
  await waitForText("#progress-text", "^done: 6 of 6 runs");
  assert.match(await text("#progress-text"), /6 from earlier/);
  await page.waitForFunction(() => Number(document.getElementById("charts").dataset.points) > 0);
  // Half the racks: another network, so everything is computed again.
  await page.$eval("#text", (area) => {
    area.value = area.value.replace('stop  = "12 ms"', 'stop  = "6 ms"');
    area.dispatchEvent(new Event("input"));
  });
  await waitForText("#estimate", "6 runs, about");
  await page.click("#run");
  await waitForText("#run-title", "busy links");
  await waitForText("#progress-text", "^done: 6 of 6 runs, [^f]*$");
  await page.click("#tab-compare");
  await waitForText("#compare-note", "2 pairs of cells");
  const rows = await page.$$eval("#compare-table tbody tr", (nodes) => nodes.map((node) => node.textContent));
  assert.ok(rows.some((row) => /law swift.*victim.*rate_gbps/.test(row)), rows.join("\n"));
  await page.waitForFunction(() => Number(document.getElementById("compare-charts").dataset.points) > 0);
  await page.select("#compare-a-cell", "law poseidon");
  await page.select("#compare-b-cell", "law swift");
  await waitForText("#compare-note", "1 pair of cells");
  await waitForText("#compare-table", "law poseidon → law swift");
  await page.click("#tab-runs");
  await waitForText("#runs", "run 3");
  await page.click("#tab-run");
});

test("a reload keeps the text and the run, and a choice keeps the edited text", async () => {
  const edited = await page.$eval("#text", (area) => area.value);
  assert.match(edited, /stop  = "6 ms"/);
  await page.reload({ waitUntil: "load" });
  await page.waitForSelector("html[data-ready]");
  assert.equal(await page.$eval("#text", (area) => area.value), edited);
  await page.select("#chooser", "name:leaf-spine");
  await waitForText("#scenario-title", "leaf-spine");
  // A sweep over numbers has a slider, which also offers values between those of the scenario.
  assert.deepEqual(await page.$$eval("#sweep-list input[type=range]", (ranges) => ranges.map((range) => range.min < range.max)), [true]);
  await page.$eval("#sweep-list input[type=range]", (range) => {
    range.value = String((Number(range.min) + Number(range.step)).toFixed(3));
    range.dispatchEvent(new Event("input"));
  });
  await waitForText("#estimate", "^25 runs");
  await page.select("#chooser", "edited:");
  await waitForText("#scenario-title", "two busy links");
  assert.equal(await page.$eval("#text", (area) => area.value), edited);
  await page.click("#sweep-list input[value=hpcc]");
  await waitForText("#estimate", "6 runs, nothing to compute");
  await page.click("#run");
  await page.waitForSelector("#result h3");
});

test("pages have no serious accessibility problem, light and dark, wide and narrow", async () => {
  for (const width of [1280, 400]) {
    for (const dark of [false, true]) {
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
      for (const tab of ["run", "compare", "runs"]) {
        await page.click(`#tab-${tab}`);
        // The policy of the page forbids scripts from elsewhere, but not those of the debugger.
        await page.evaluate(AXE);
        const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        const serious = found.violations.filter((violation) => ["serious", "critical"].includes(violation.impact));
        assert.deepEqual(serious.map((violation) => `${violation.id}: ${violation.nodes[0].html}`), [], `${width} ${dark} ${tab}`);
      }
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide at ${width}`);
    }
  }
  await page.setViewport({ width: 1280, height: 900 });
});

test("a run stops with its tab, and Ctrl-C ends the server", async () => {
  await setText((await page.$eval("#text", (area) => area.value)).replace('stop  = "6 ms"', 'stop  = "2000 ms"'));
  await page.click("#tab-run");
  await waitForText("#estimate", "6 runs, about");
  await page.click("#run");
  await waitForText("#progress-text", "^running");
  assert.deepEqual(problems, []);
  const started = await page.evaluate(() => sessionStorage.getItem("token"));
  await page.close();
  const origin = url.split("/#")[0];
  const status = async () => (await (await fetch(`${origin}/api/runs`, { headers: { Authorization: `Bearer ${started}` } })).json()).session[0].status;
  for (let attempt = 0; attempt < 100 && (await status()) === "running"; attempt += 1) await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(await status(), "stopped");
  server.kill("SIGINT");
  assert.equal(await ended(server), 0);
  await assert.rejects(fetch(origin));
});
