// Makes the screenshots of the report, the map and `poseidon serve`:
//   POSEIDON=path/to/poseidon node screenshots.mjs FOLDER [--book]
// FOLDER gets each page at 1280, 768 and 400 pixels, light and dark. With --book, the pictures of the book
// (docs/figures/*.webp) are made again. Needs the prepared pages of .ci/browser in target/browser.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch, openPage } from "./browser.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const prepared = path.join(root, "target/browser");
const [folder, option] = process.argv.slice(2);
if (!folder) {
  console.error("usage: POSEIDON=path/to/poseidon node screenshots.mjs FOLDER [--book]");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const file = (name) => pathToFileURL(path.join(prepared, name)).href;

/** The pages, by the name of their picture. */
const PAGES = {
  opening: file("published/report.html"),
  poseidon: `${file("published/report-poseidon.html")}#poseidon/fig14b`,
  powertcp: `${file("published/report-powertcp.html")}#powertcp/fig4-10to1`,
  "vai-sf": `${file("published/report-vai-sf.html")}#vai-sf/fig9`,
  rpm: `${file("published/report-rpm.html")}#rpm/table2-exp1`,
  own: file("own/quickstart/report.html"),
  map: file("own/quickstart/map-law-swift.html"),
};
/** The pictures of the book: page, and the size of the view. */
const BOOK = { report: ["opening", 1000, 700], map: ["map", 1100, 760], study: ["own", 1000, 760] };

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function shoot(browser, url, target, view, { quality } = {}) {
  const page = await openPage(browser, url, view);
  // Plots are drawn when they come into view.
  await pause(400);
  await page.screenshot(quality ? { path: target, type: "webp", quality } : { path: target });
  await page.close();
}

/** Starts `poseidon serve`, runs the quickstart and calls `use` while it runs and after it. */
async function withServer(browser, view, use) {
  const output = mkdtempSync(path.join(tmpdir(), "poseidon-serve-"));
  const server = spawn(process.env.POSEIDON ?? "poseidon", ["serve", "--output", output], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const url = await new Promise((resolve, reject) => {
      server.stdout.on("data", (data) => resolve(String(data).trim()));
      server.on("exit", (code) => reject(new Error(`poseidon serve ended with code ${code}`)));
    });
    const page = await openPage(browser, url, view);
    await page.waitForSelector("html[data-ready]");
    await page.click("#run");
    await page.waitForFunction(() => Number(document.getElementById("charts").dataset.points) > 200);
    await use(page);
    await page.close();
  } finally {
    server.kill("SIGINT");
    await new Promise((resolve) => server.on("exit", resolve));
    rmSync(output, { recursive: true, force: true });
  }
}

const browser = await launch();
try {
  for (const width of [1280, 768, 400]) {
    for (const dark of [false, true]) {
      const view = { width, height: width === 400 ? 900 : 860, dark };
      const name = (page) => path.join(folder, `${page}-${width}-${dark ? "dark" : "light"}.png`);
      for (const [page, url] of Object.entries(PAGES)) await shoot(browser, url, name(page), view);
      await withServer(browser, view, (page) => page.screenshot({ path: name("serve") }));
    }
  }
  if (option === "--book") {
    const figure = (name) => path.join(root, `docs/figures/${name}.webp`);
    for (const [name, [page, width, height]] of Object.entries(BOOK)) {
      await shoot(browser, PAGES[page], figure(name), { width, height }, { quality: 80 });
    }
    await withServer(browser, { width: 1200, height: 800 }, (page) =>
      page.screenshot({ path: figure("serve"), type: "webp", quality: 80 }));
  }
} finally {
  await browser.close();
}
