// Screenshots of the main pages, at two widths in both themes, small enough to be kept beside the documentation.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, must } from "./harness.mjs";
import { watched } from "./guarded.mjs";
import { fewColours } from "./png.mjs";

/** The pages that are kept, with the tallest part of each that is. */
const KEPT = { runs: 1_500, inbox: 900, "task-event": 1_500, "task-prompt": 1_500, session: 1_300, "tools-and-models": 1_300, audit: 900, compare: 1_100 };

/** @param {import("playwright-core").Browser} browser @param {string} base @param {Record<string, string>} found @param {string} to */
export async function shots(browser, base, found, to) {
  await check("screenshots are taken and are small", async () => {
    mkdirSync(to, { recursive: true });
    let sum = 0;
    for (const theme of /** @type {const} */ (["light", "dark"])) {
      for (const width of [1280, 360]) {
        const page = await watched(browser, base, { viewport: { width, height: 900 }, colorScheme: theme });
        for (const [name, tallest] of Object.entries(KEPT)) {
          await page.goto(found[name]);
          const height = Math.min(tallest, await page.evaluate(() => document.documentElement.scrollHeight));
          const picture = fewColours(await page.screenshot({ fullPage: true, clip: { x: 0, y: 0, width, height } }));
          writeFileSync(join(to, `${name}-${width}-${theme}.png`), picture);
          sum += picture.length;
        }
        await page.context().close();
      }
    }
    console.log(`        ${(sum / 1024).toFixed(0)} KiB in all`);
    must(sum < 2_000_000, `the pictures have ${sum} bytes`);
  });
}
