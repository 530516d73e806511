// Starts Debian's Chromium for tests and screenshots. Nothing is downloaded.
import puppeteer from "puppeteer-core";
import { existsSync } from "node:fs";

const CANDIDATES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Returns the path of an installed Chromium, or undefined. */
export function findChromium() {
  return CANDIDATES.find((path) => path && existsSync(path));
}

/** Starts a headless browser. The caller must close it. */
export function launch() {
  const executablePath = findChromium();
  if (!executablePath) throw new Error("no Chromium found; install Debian's package `chromium`, or set CHROMIUM");
  // Without its sandbox, Chromium also runs as root. The pages under test are our own.
  return puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"] });
}

/** Opens a page with the given width, in the light or dark color scheme. */
export async function openPage(browser, url, { width = 1280, height = 800, dark = false } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.goto(url, { waitUntil: "load" });
  return page;
}
