// A report, opened as the file that was sent to somebody: nothing runs, nothing is asked for, and it reads like the pages.
import { pathToFileURL } from "node:url";
import { check, fault, must } from "./harness.mjs";
import { tooWide, violations } from "./guarded.mjs";
import { folder, run } from "./programs.mjs";

/** @param {import("playwright-core").Browser} browser @param {Record<string, string>} found the pages of the log of the demo */
export async function reported(browser, found) {
  const id = (/** @type {string} */ url) => decodeURIComponent(new URL(url).pathname.split("/").pop() ?? "");
  const subjects = { task: id(found["task-event"]), session: `s:${id(found.session)}` };
  for (const [what, subject] of Object.entries(subjects)) {
    await check(`the report of a ${what} is one file: axe finds nothing, and it asks nobody for anything`, async () => {
      const file = folder(`${what}.html`);
      await run("report", subject, "-o", file);
      const url = pathToFileURL(file).href;
      for (const [theme, width] of /** @type {["light" | "dark", number][]} */ ([["light", 1280], ["dark", 360]])) {
        const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
        context.on("request", (request) => {
          if (request.url().split("#")[0] !== url) fault(`a request for ${request.url()}`);
        });
        context.on("console", (message) => { if (message.type() === "error") fault(message.text()); });
        const page = await context.newPage();
        await page.goto(url);
        for (const violation of await violations(page)) fault(`at ${width} ${theme}: ${violation}`);
        must((await tooWide(page)) <= 0, `it is wider than a screen of ${width}`);
        const lost = await page.evaluate(() => [...document.querySelectorAll("a[href]")].map((link) => link.getAttribute("href"))
          .filter((href) => !href.startsWith("#") || (href.length > 1 && !document.getElementById(decodeURIComponent(href.slice(1))))));
        must(lost.length === 0, `links that lead nowhere: ${lost.slice(0, 5).join(" ")}`);
        await context.close();
      }
    });
  }
}
