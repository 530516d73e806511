// Tests the page of `poseidon run X --map` in a browser: MAP_PAGE=results/quickstart/map-law-swift.html node --test map.test.mjs
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { launch, openPage } from "./browser.mjs";

const file = process.env.MAP_PAGE;
if (!file) throw new Error("set MAP_PAGE to a page that `poseidon run X --map` wrote");
const url = pathToFileURL(file).href;
const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** Opens the map, and collects its requests and errors. */
async function openMap({ hash = "", ...options } = {}) {
  const page = await openPage(browser, "about:blank", options);
  page.requests = [];
  page.errors = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => page.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  await page.goto(url + hash, { waitUntil: "load" });
  await page.waitForSelector("html[data-ready=true]");
  return page;
}

const state = (page) => page.evaluate(() => window.page.state);
const text = (page, selector) => page.$eval(selector, (node) => node.textContent);
/** Waits until the page has drawn its state. */
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

async function click(page, selector) {
  await page.$eval(selector, (node) => node.click());
  await settle(page);
}

test("the page opens without errors and without the network", async () => {
  const page = await openMap();
  assert.deepEqual(page.errors, []);
  assert.deepEqual(page.requests.filter((request) => !request.startsWith(url)), []);
  assert.match(await text(page, "#summary"), /hosts?, .* switch(es)?, .* links?/);
  const painted = await page.evaluate(() => {
    const canvas = document.getElementById("network");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, index) => index % 4 === 3 && value > 0).length;
  });
  assert.ok(painted > 1000, `${painted} pixels are painted`);
  await page.close();
});

test("a network request from the page is refused by its policy", async () => {
  const page = await openMap();
  const refused = await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "sent", (error) => error.message));
  assert.match(refused, /fetch/i);
  assert.ok(page.errors.some((error) => /Content Security Policy/.test(error)), page.errors.join("\n"));
  await page.close();
});

test("the page opens at the longest queue", async () => {
  const page = await openMap();
  const [step, expected] = await page.evaluate(() => {
    const { state, data } = window.page;
    return [state.step, data.worst.indexOf(data.maxQueue)];
  });
  assert.equal(step, expected);
  await page.close();
});

test("the slider and the buttons change the time", async () => {
  const page = await openMap({ hash: "#t=0" });
  const first = await text(page, "#clock");
  await page.focus("#time");
  await page.keyboard.press("ArrowRight");
  await settle(page);
  assert.equal((await state(page)).step, 1);
  assert.notEqual(await text(page, "#clock"), first);
  await click(page, "#forth");
  assert.equal((await state(page)).step, 2);
  await click(page, "#back");
  await click(page, "#back");
  await click(page, "#back");
  assert.equal((await state(page)).step, 0);
  assert.equal(await page.$eval("#time", (node) => node.getAttribute("aria-valuetext")), first);
  await page.close();
});

test("keys play, pause and step", async () => {
  const page = await openMap({ hash: "#t=0" });
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press(".");
  await page.keyboard.press(".");
  await page.keyboard.press(",");
  await settle(page);
  assert.equal((await state(page)).step, 1);
  await page.keyboard.press("End");
  const { steps } = await page.evaluate(() => window.page.data.net);
  assert.equal((await state(page)).step, steps - 1);
  await page.keyboard.press("Home");
  assert.equal((await state(page)).step, 0);
  await page.keyboard.press(" ");
  await page.waitForFunction(() => window.page.state.step > 1);
  assert.equal(await text(page, "#play"), "Pause");
  await page.keyboard.press(" ");
  const { step } = await state(page);
  await new Promise((done) => setTimeout(done, 300));
  assert.ok((await state(page)).step <= step + 1, "the time stands still");
  assert.equal(await text(page, "#play"), "Play");
  await page.close();
});

test("a click on a worst queue of the run jumps to its time", async () => {
  const page = await openMap({ hash: "#t=0" });
  const peak = await page.evaluate(() => window.page.data.net.peaks[0]);
  assert.ok(peak, "the run has a queue");
  await click(page, "#worst-run tbody tr:nth-child(1) button");
  const { step, channel } = await state(page);
  assert.equal(channel, peak.channel);
  const [from, to, queue, unit] = await page.evaluate(() => {
    const { data, state } = window.page;
    return [...stepTimes(data.net, state.step), queueAt(data, state.channel, state.step), data.net.queue_unit];
  });
  assert.ok(from < peak.ps && peak.ps <= to, `${from} ${peak.ps} ${to}`);
  assert.ok(Math.abs(queue - peak.bytes) < unit, `${queue} ${peak.bytes}`);
  assert.match(await text(page, "#worst-now tbody tr:nth-child(1)"), /B/);
  const name = await page.evaluate((channel) => window.page.data.net.channels[channel].names.join(" → "), channel);
  assert.equal(await text(page, "#worst-now tbody tr.selected button"), name);
  assert.ok((await page.$eval("#timeline", (node) => node.getAttribute("aria-label"))).startsWith(name));
  assert.ok(step > 0);
  await page.close();
});

test("a flow is found by search, and its path has the hops of its route", async () => {
  const page = await openMap();
  const flow = await page.evaluate(() => window.page.data.net.flows.at(-1));
  await page.type("#search", flow.names.join(" "));
  await settle(page);
  const found = await page.$$eval("#flows button", (buttons) => buttons.map((button) => button.textContent));
  assert.ok(found.length > 0 && found.every((name) => flow.names.every((word) => name.includes(word))), found.join());
  await click(page, "#flows button");
  const chosen = await page.evaluate(() => window.page.data.net.flows[window.page.state.flow]);
  const hops = await page.$$eval("#hops tbody tr", (rows) => rows.map((row) => row.cells[1].textContent));
  const expected = await page.evaluate(
    (route) => route.map((channel) => window.page.data.net.channels[channel].names.join(" → ")),
    chosen.route,
  );
  assert.deepEqual(hops, expected);
  assert.ok(hops.at(-1).endsWith(chosen.names[1]) || hops.at(-1).endsWith("its hosts"), hops.at(-1));
  await click(page, "#hops tbody tr:last-child button");
  assert.equal((await state(page)).channel, chosen.route.at(-1));
  await click(page, "#clear-flow");
  assert.equal((await state(page)).flow, -1);
  assert.equal(await page.$eval("#path", (node) => node.hidden), true);
  await page.close();
});

test("the address keeps the time and the selection", async () => {
  const page = await openMap();
  const id = await page.evaluate(() => window.page.data.net.flows[0].id);
  await page.evaluate(() => {
    window.page.select({ step: 3, channel: 1, flow: 0 });
  });
  await page.waitForFunction(() => location.hash.includes("port=1"));
  const hash = await page.evaluate(() => location.hash);
  assert.match(hash, new RegExp(`^#t=[0-9.]+&port=1&flow=${id}$`));
  await page.close();
  const copy = await openMap({ hash });
  const { step, channel, flow } = await state(copy);
  assert.deepEqual({ step, channel, flow }, { step: 3, channel: 1, flow: 0 });
  await copy.close();
});

test("a hostile address is ignored", async () => {
  const page = await openMap({ hash: "#t=-1&port=99999999&flow=<img src=x onerror=alert(1)>" });
  const { channel, flow } = await state(page);
  assert.deepEqual({ channel, flow }, { channel: -1, flow: -1 });
  assert.deepEqual(page.errors, []);
  await page.close();
});

test("arrow keys move between boxes and tell their numbers", async () => {
  const page = await openMap();
  await page.focus("#network");
  await page.keyboard.press("ArrowRight");
  const { box } = await state(page);
  assert.ok(box >= 0);
  const name = await page.evaluate((box) => window.page.data.net.boxes[box].name, box);
  assert.ok((await text(page, "#readout")).includes(name.split("[")[0]), await text(page, "#readout"));
  await page.keyboard.press("ArrowDown");
  const below = (await state(page)).box;
  const tiers = await page.evaluate((boxes) => boxes.map((box) => window.page.data.net.boxes[box].tier), [box, below]);
  assert.ok(tiers[1] <= tiers[0]);
  await page.keyboard.press("Enter");
  assert.ok((await state(page)).channel >= 0);
  await page.close();
});

test("pointing at a link shows both directions", async () => {
  const page = await openMap();
  const point = await page.evaluate(() => {
    const { drawing } = window.page;
    const link = drawing.links.find(({ forward, backward, bend }) => forward >= 0 && bend === 0) ?? drawing.links[0];
    const { left, top } = document.getElementById("network").getBoundingClientRect();
    const { scale, x, y } = drawing.view;
    const at = (a, b) => a * 0.55 + b * 0.45;
    return [left + at(link.ax, link.bx) * scale + x, top + at(link.ay, link.by) * scale + y];
  });
  await page.mouse.move(...point);
  await settle(page);
  assert.match(await text(page, "#tip"), /load .* of .*bps, .*queue/);
  assert.equal(await page.$eval("#tip", (node) => node.hidden), false);
  await page.close();
});

test("the table lists every direction of every link", async () => {
  const page = await openMap();
  await click(page, "#all summary");
  const { channels } = await page.evaluate(() => ({ channels: window.page.data.net.channels.length }));
  const shown = await page.$$eval("#links tbody tr:not([hidden])", (rows) => rows.length);
  assert.equal(shown, Math.min(100, channels));
  assert.ok((await text(page, "#link-count")).startsWith(`${shown} of ${channels} `));
  if (channels > 100) {
    await click(page, "#more-links");
    assert.equal(await page.$$eval("#links tbody tr:not([hidden])", (rows) => rows.length), Math.min(200, channels));
  }
  await page.close();
});

test("reduced motion slows playing down", async () => {
  const page = await openPage(browser, "about:blank");
  await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
  await page.goto(`${url}#t=0`, { waitUntil: "load" });
  await page.waitForSelector("html[data-ready=true]");
  await click(page, "#play");
  await new Promise((done) => setTimeout(done, 1200));
  const { step } = await state(page);
  assert.ok(step >= 1 && step <= 3, `${step} steps in 1.2 s`);
  await page.close();
});

test("one drawing takes less than a frame of 60 Hz", async () => {
  const page = await openMap();
  const times = await page.evaluate(() => {
    const { drawing, data } = window.page;
    return Array.from({ length: 40 }, (_, i) => {
      const started = performance.now();
      drawing.draw({ ...window.page.state, step: Math.floor((i * data.net.steps) / 40) });
      // Reading a pixel waits until everything is painted.
      drawing.context.getImageData(0, 0, 1, 1);
      return performance.now() - started;
    }).sort((a, b) => a - b);
  });
  console.log(`drawing: median ${times[20].toFixed(1)} ms, slowest ${times[39].toFixed(1)} ms`);
  assert.ok(times[20] < 1000 / 60, `${times[20]} ms`);
  await page.close();
});

for (const dark of [false, true]) {
  for (const width of [1280, 400]) {
    test(`axe finds no serious problem (${width} px, ${dark ? "dark" : "light"})`, async () => {
      const page = await openMap({ width, dark });
      await page.evaluate(() => window.page.select({ step: 1, channel: 0, flow: 0 }));
      await click(page, "#all summary");
      await click(page, "#about summary");
      // The policy of the page allows no other script, so axe is evaluated by the debugger.
      const { readFileSync } = await import("node:fs");
      await page.evaluate(readFileSync(axePath, "utf8"));
      const { violations } = await page.evaluate(() => axe.run(document));
      const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 120))]), []);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
      await page.close();
    });
  }
}
