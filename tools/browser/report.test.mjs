// Tests a report in a real browser: REPORT_DIR=FOLDER node --test report.test.mjs
// The folder contains report.html and its further pages. Together they must have time series, bars and failed claims.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch } from "./browser.mjs";

const folder = process.env.REPORT_DIR;
if (!folder) throw new Error("set REPORT_DIR to a folder with a report, such as the output of `poseidon report`");
const here = path.dirname(fileURLToPath(import.meta.url));
const axe = readFileSync(path.join(here, "node_modules/axe-core/axe.min.js"), "utf8");
const pages = readdirSync(folder).filter((name) => /^report.*\.html$/.test(name)).sort();

/** The largest page, in bytes. */
const MAX_BYTES = 3_000_000;
/** The longest time to the first view, in milliseconds. */
const MAX_FIRST_VIEW = 1000;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Opens a page of the report. Records its requests and errors. */
async function open(file, { width = 1280, height = 900, dark = false, script = true } = {}) {
  const page = await browser.newPage();
  page.requests = [];
  page.problems = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  await page.setViewport({ width, height });
  await page.setJavaScriptEnabled(script);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  const [name, hash] = file.split("#");
  await page.goto(pathToFileURL(path.join(folder, name)).href + (hash === undefined ? "" : `#${hash}`), { waitUntil: "load" });
  if (script) await page.waitForSelector("html[data-ready]");
  return page;
}

/** Returns the first page with an element that matches a selector, scrolled to the element. */
async function openWith(selector) {
  for (const name of pages) {
    const page = await open(name);
    const found = await page.evaluate(async (selector) => {
      for (const figure of document.querySelectorAll("figure")) {
        figure.scrollIntoView();
        await new Promise((done) => setTimeout(done, 30));
        if (figure.querySelector(selector)) {
          document.querySelectorAll("[data-found]").forEach((other) => delete other.dataset.found);
          figure.dataset.found = "";
          figure.scrollIntoView({ block: "center" });
          return true;
        }
      }
      return false;
    }, selector);
    if (found) return page;
    await page.close();
  }
  return undefined;
}

const visibleRows = (page) =>
  page.$$eval("tr[data-verdict]", (rows) => rows.filter((row) => !row.hidden).map((row) => ({ ...row.dataset, text: row.textContent })));

/** Replaces downloads with a list of their names and texts. */
const captureDownloads = (page) =>
  page.evaluate(() => {
    window.downloads = [];
    const blobs = new Map();
    URL.createObjectURL = (blob) => {
      const url = `blob:${blobs.size}`;
      blobs.set(url, blob);
      return url;
    };
    HTMLAnchorElement.prototype.click = function () {
      blobs.get(this.getAttribute("href")).text().then((text) => window.downloads.push({ name: this.download, text }));
    };
  });

/** Presses a button below the found figure and returns the downloaded file. */
async function pressAndDownload(page, label) {
  await page.evaluate((label) => document.querySelector(`[data-found] .tools button[aria-label="${label}"]`).click(), label);
  await page.waitForFunction(() => window.downloads.length > 0);
  return page.evaluate(() => window.downloads.pop());
}

test("the report has an opening page, and no page is too large", () => {
  assert.ok(pages.includes("report.html"), `no report.html in ${folder}`);
  for (const name of pages) {
    const { size } = statSync(path.join(folder, name));
    console.log(`${name}: ${size} bytes`);
    assert.ok(size <= MAX_BYTES, `${name} has ${size} bytes`);
  }
});

test("every page shows its first view within a second, without network and without errors", async () => {
  for (const name of pages) {
    const page = await open(name);
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
    const times = await page.evaluate(() => ({
      paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
      load: performance.getEntriesByType("navigation")[0].loadEventEnd,
    }));
    console.log(`${name}: first view ${times.paint.toFixed(0)} ms, loaded ${times.load.toFixed(0)} ms`);
    assert.ok(times.paint < MAX_FIRST_VIEW, `${name} needs ${times.paint} ms`);
    assert.deepEqual(page.requests.filter((url) => !url.startsWith("file:") || !url.includes(`/${name}`)), [], name);
    assert.deepEqual(page.problems, [], name);
    assert.notEqual(await page.title(), "", name);
    await page.close();
  }
});

test("axe finds nothing serious, in light and dark and on a small screen", async () => {
  const views = [{}, { dark: true }, { width: 400 }];
  for (const [index, name] of pages.entries()) {
    // The pages share styles and templates: the first three in all views, each other one in the next view.
    for (const view of index < 3 ? views : [views[index % 3]]) {
      const page = await open(name, view);
      await page.evaluate(async () => {
        for (const figure of [...document.querySelectorAll("figure")].slice(0, 12)) {
          figure.scrollIntoView();
          await new Promise((done) => setTimeout(done, 20));
        }
        for (const details of document.querySelectorAll("details")) details.open = true;
        document.querySelector(".tools button[aria-expanded]")?.click();
      });
      await page.evaluate(axe);
      const serious = await page.evaluate(async () => {
        const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
        if (passes.length < 10) return [`axe checked only ${passes.length} rules`];
        return violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
      });
      assert.deepEqual(serious, [], `${name} ${JSON.stringify(view)}`);
      await page.close();
    }
  }
});

test("filters and search select claims, and the address keeps them", async () => {
  const page = await open("report.html");
  if ((await page.$("form.filters")) === null) {
    assert.equal(await page.$$eval("section.study", (sections) => sections.length), 1, "only a single study has no filters");
    return;
  }
  const all = await visibleRows(page);
  assert.equal(all[0].verdict, all.some(({ verdict }) => verdict === "fails") ? "fails" : all[0].verdict, "failures come first");
  await page.select("select[name=verdict]", "holds");
  let rows = await visibleRows(page);
  assert.equal(rows.length, all.filter(({ verdict }) => verdict === "holds").length);
  await page.click("input[name=gate]");
  rows = await visibleRows(page);
  assert.equal(rows.length, all.filter(({ verdict, gate }) => verdict === "holds" && gate === "1").length);
  assert.match(await page.evaluate(() => location.hash), /^#\?.*verdict=holds/);
  assert.match(await page.$eval("output.count", (output) => output.textContent), new RegExp(`^${rows.length} of ${all.length} claims`));
  await page.click("button[type=reset]");
  await page.waitForFunction((count) => [...document.querySelectorAll("tr[data-verdict]")].filter((row) => !row.hidden).length === count, {}, all.length);
  const word = all[0].text.match(/[A-Za-z]{5,}/g).at(-1);
  await page.keyboard.press("/");
  await page.keyboard.type(word);
  rows = await visibleRows(page);
  assert.ok(rows.length > 0 && rows.every(({ text }) => text.toLowerCase().includes(word.toLowerCase())));
  await page.keyboard.type(" zzzzz");
  assert.equal((await visibleRows(page)).length, 0);
  assert.equal(await page.$eval(".nothing", (element) => element.hidden), false);
  await page.close();
  const linked = await open("report.html#?verdict=fails");
  assert.ok((await visibleRows(linked)).every(({ verdict }) => verdict === "fails"));
  await linked.close();
});

test("a deep link shows its claim, and links between pages have targets", async () => {
  const page = await open("report.html");
  const links = await page.$$eval("a[href*='#']", (anchors) => anchors.map((anchor) => anchor.getAttribute("href")).filter((href) => !href.startsWith("#?")));
  await page.close();
  const byFile = new Map();
  for (const href of new Set(links)) {
    const file = href.split("#")[0] || "report.html";
    byFile.set(file, [...(byFile.get(file) ?? []), href]);
  }
  for (const [file, hrefs] of byFile) {
    const target = await open(file);
    const missing = await target.evaluate((ids) => ids.filter((id) => !document.getElementById(decodeURIComponent(id))), hrefs.map((href) => href.split("#")[1]));
    assert.deepEqual(missing, [], file);
    await target.close();
  }
  const claim = links.filter((href) => href.includes(":claim-")).at(-1);
  if (claim === undefined) return;
  const deep = await open(claim.startsWith("#") ? `report.html${claim}` : claim);
  const isVisible = await deep.evaluate(() => {
    const bounds = document.getElementById(decodeURIComponent(location.hash.slice(1))).getBoundingClientRect();
    return bounds.top >= 0 && bounds.top < innerHeight;
  });
  assert.ok(isVisible, claim);
  await deep.close();
});

test("bars and distributions show their values under the pointer and by keyboard", async () => {
  const page = await openWith(".plot:not(.live) rect.bar, .plot:not(.live) .cross");
  if (page === undefined) return console.log("SKIPPED: no static figure");
  const box = await page.$eval("[data-found] .plot > svg", (svg) => {
    const frame = svg.querySelector("rect.plot").getBoundingClientRect();
    return { x: frame.x + frame.width / 2, y: frame.y + frame.height / 2 };
  });
  await page.mouse.move(box.x, box.y);
  const tip = await page.$eval("[data-found] .tip", (element) => ({ hidden: element.hidden, text: element.textContent }));
  assert.equal(tip.hidden, false);
  assert.match(tip.text, /\d/);
  await page.mouse.move(2, 2);
  await page.focus("[data-found] .plot");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.$eval("[data-found] [aria-live]", (element) => element.textContent), /\d/);
  await captureDownloads(page);
  const csv = await pressAndDownload(page, "Download the data as CSV");
  assert.match(csv.text, /^panel,chart,x_axis,y_axis,series,group,x,y,half_interval\n1,/);
  const svg = await pressAndDownload(page, "Download the view as SVG");
  assert.match(svg.text, /^<svg[^>]* xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  assert.ok(csv.name.endsWith(".csv") && svg.name.endsWith(".svg"));
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("time series zoom together, and the zoomed view is exported", async () => {
  const page = await openWith(".plot.live .uplot");
  if (page === undefined) return console.log("SKIPPED: no time series");
  const ranges = () =>
    page.evaluate(() => {
      const study = document.querySelector("[data-found]").dataset.study;
      return [...groups].filter(([key]) => key.startsWith(study)).map(([, panels]) => [...panels].map(({ plot }) => [plot.scales.x.min, plot.scales.x.max]));
    });
  const before = await ranges();
  const over = await page.$eval("[data-found] .u-over", (element) => element.getBoundingClientRect().toJSON());
  await page.mouse.move(over.x + over.width * 0.5, over.y + over.height / 2);
  const tip = await page.$eval("[data-found] .tip", (element) => ({ hidden: element.hidden, text: element.textContent }));
  assert.ok(!tip.hidden && /\d/.test(tip.text), tip.text);
  await page.mouse.move(over.x + over.width * 0.25, over.y + over.height / 2);
  await page.mouse.down();
  await page.mouse.move(over.x + over.width * 0.6, over.y + over.height / 2, { steps: 8 });
  await page.mouse.up();
  const zoomed = await ranges();
  const [[low, high]] = zoomed[0];
  assert.ok(high - low < 0.5 * (before[0][0][1] - before[0][0][0]), `${low} to ${high}`);
  assert.ok(zoomed[0].every(([min, max]) => min === low && max === high), "all plots of the group have the same zoom");
  await captureDownloads(page);
  const { text } = await pressAndDownload(page, "Download the view as SVG");
  const problem = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")?.textContent, text);
  assert.equal(problem, undefined);
  assert.match(text, /<path [^>]*d="M/);
  await page.click("[data-found] .zoom-reset");
  assert.deepEqual(await ranges(), before);
  await page.focus("[data-found] .plot");
  await page.keyboard.press("+");
  const [[keyLow, keyHigh]] = (await ranges())[0];
  assert.ok(keyHigh - keyLow < before[0][0][1] - before[0][0][0]);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("figures remain without a script and in print", async () => {
  const name = pages.length > 1 ? pages[1] : pages[0];
  const plain = await open(name, { script: false });
  const isShown = (page) => page.$$eval(".plot > svg", (figures) => figures.every((svg) => svg.getBoundingClientRect().height > 40));
  assert.ok(await isShown(plain));
  await plain.close();
  const printed = await open(name);
  await printed.evaluate(() => document.querySelectorAll("figure").forEach((figure) => figure.scrollIntoView()));
  await printed.emulateMediaType("print");
  assert.ok(await isShown(printed));
  assert.equal(await printed.$eval(".contents", (element) => element.getBoundingClientRect().height), 0);
  await printed.close();
});

test("no page is wider than a small screen", async () => {
  for (const name of pages) {
    for (const width of [400, 768]) {
      const page = await open(name, { width });
      assert.equal(await page.evaluate(() => document.scrollingElement.scrollWidth), width, `${name} at ${width}`);
      await page.close();
    }
  }
});
