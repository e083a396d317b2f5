// A browser whose pages are watched: a script that fails or is refused, a dialog, and a request to elsewhere are faults.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { fault } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
}

/**
 * Returns a page of a context of its own.
 * @param {import("playwright-core").Browser} browser
 * @param {string} base the address below which everything must be
 * @param {import("playwright-core").BrowserContextOptions} [options]
 * @param {boolean} [isCut] whether connections are broken on purpose, which a browser reports as faults
 */
export async function watched(browser, base, options = {}, isCut = false) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const origin = new URL(base).origin;
  context.on("console", (message) => {
    if (message.type() !== "error") return;
    // A page that says "not found" is one of the pages.
    const isExpected = message.text().includes("404") || (isCut && message.text().includes("net::ERR_"));
    if (!isExpected) fault(`${message.page()?.url()}: ${message.text()}`);
  });
  context.on("weberror", (error) => fault(`${error.page()?.url()}: ${error.error()}`));
  context.on("dialog", (dialog) => {
    fault(`a dialog opened: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  context.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) fault(`a request to elsewhere: ${request.url()}`);
  });
  context.setDefaultTimeout(30_000);
  return context.newPage();
}

/** What axe finds on a page. @param {import("playwright-core").Page} page */
export async function violations(page) {
  // As a debugger would, since the policy of the page lets no other script in.
  await page.evaluate(`(() => { ${axe} })(); undefined`);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((violation) => {
    const where = violation.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ");
    return `${violation.id} (${violation.nodes.length}): ${where}`;
  });
}

/** How many pixels a page is wider than the screen. @param {import("playwright-core").Page} page */
export function tooWide(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** The time until the first content is painted: the median of some loads. @param {import("playwright-core").Page} page @param {string} url */
export async function firstPaint(page, url) {
  const times = [];
  for (let count = 0; count < 5; count += 1) {
    await page.goto(url);
    times.push(await page.evaluate(() => new Promise((give) => {
      new PerformanceObserver((list) => {
        const painted = list.getEntriesByName("first-contentful-paint")[0];
        if (painted) give(painted.startTime);
      }).observe({ type: "paint", buffered: true });
    })));
  }
  return times.sort((a, b) => a - b)[2];
}
