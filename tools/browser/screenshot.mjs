// Writes a screenshot of a page: node screenshot.mjs URL_OR_FILE OUT.png [--width 1280] [--height 800] [--dark] [--full]
import { launch, openPage } from "./browser.mjs";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    width: { type: "string", default: "1280" },
    height: { type: "string", default: "800" },
    dark: { type: "boolean", default: false },
    full: { type: "boolean", default: false },
  },
});
const [target, output] = positionals;
if (!target || !output) {
  console.error("usage: node screenshot.mjs URL_OR_FILE OUT.png [--width 1280] [--height 800] [--dark] [--full]");
  process.exit(2);
}
const url = /^(https?|file):/.test(target) ? target : pathToFileURL(target).href;
const browser = await launch();
try {
  const page = await openPage(browser, url, {
    width: Number(values.width),
    height: Number(values.height),
    dark: values.dark,
  });
  page.on("pageerror", (error) => console.error(`page error: ${error.message}`));
  await page.screenshot({ path: output, fullPage: values.full });
} finally {
  await browser.close();
}
