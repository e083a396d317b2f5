// A large log: what opens quickly, scrolls and stays small in the browser.
import { writeFileSync } from "node:fs";
import { check, figure, must } from "./harness.mjs";
import { firstPaint, tooWide, violations, watched } from "./guarded.mjs";
import { TABS, pagesOf } from "./pages.mjs";
import { folder, inspect, run, task } from "./programs.mjs";

/** The events of the log; 1000000 is the size of the budgets. */
const EVENTS = Number(process.env.TASKREEL_BROWSER_EVENTS ?? 20_000);

/** The events of the long task: a call has four. */
const LONG = Math.min(100_000, EVENTS / 2);

/** Makes the log, or takes the one of `TASKREEL_BROWSER_LOG`, such as the bench's. */
async function log() {
  const given = process.env.TASKREEL_BROWSER_LOG;
  if (given) return given;
  const dir = folder("large");
  const long = task("long", Array.from({ length: LONG / 4 }, (_, at) => ["echo", { text: `number ${at}` }]));
  const small = Array.from({ length: Math.round((EVENTS - LONG) / 7) }, (_, at) => task(`small-${at}`, [[at % 5 ? "echo" : "upper", { text: `text ${at}` }]]));
  const file = folder("large.ndjson");
  writeFileSync(file, [long, ...small].map((one) => JSON.stringify(one)).join("\n"));
  await run("run", file, "--data-dir", dir, "--durability", "os");
  return dir;
}

async function timed(page, url) {
  const began = performance.now();
  const answer = await page.goto(url);
  const took = performance.now() - began;
  must(answer?.status() === 200, `${url} was answered with ${answer?.status()}`);
  return took;
}

/** Measures JavaScript's heap after a collection, and counts the elements. @param {import("playwright-core").Page} page @param {string} where */
async function small(page, where) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("HeapProfiler.enable");
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  figure(`JavaScript's heap after a collection, ${where}`, usedSize / 1_000_000, "MB", 60, 1);
  await devtools.detach();
  const parts = await page.evaluate(() => document.querySelectorAll("*").length);
  must(parts < 10_000, `the page has ${parts} elements ${where}`);
}

/** @param {import("playwright-core").Browser} browser */
export async function large(browser) {
  let pages;
  await check(`a log of ${EVENTS} events with a task of ${LONG} events is made and served`, async () => {
    const dir = await log();
    pages = await inspect(["--data-dir", dir]);
  }, 1_200);
  if (!pages) return;
  const base = pages.url;
  let long = "";
  await check("on a large log the list of runs is painted at once, and a filter answers", async () => {
    const page = await watched(browser, base);
    figure("first paint of the runs", await firstPaint(page, `${base}/`), "ms", 300);
    await page.goto(`${base}/?tool=echo`);
    figure("a filter that many runs fit", await timed(page, `${base}/?tool=echo&not=state%3Dfailed`), "ms", 1_000);
    figure("a filter by a text that no run has", await timed(page, `${base}/?text=nobody+said+this`), "ms", 1_000);
    figure("the next page of runs", await timed(page, await page.goto(`${base}/`).then(() => page.locator("a[rel=next]").getAttribute("href")).then((to) => new URL(to, base).href)), "ms", 300);
    await page.goto(`${base}/open?id=long`);
    long = page.url();
    must(long.includes("/t/"), `the long task is opened at ${long}`);
    await page.context().close();
  });
  if (!long) return;
  await check("a long task opens in each tab, at its beginning, middle and end, scrolls, and stays small in memory", async () => {
    const page = await watched(browser, base);
    const end = Number(await page.goto(long).then(() => page.getByLabel("Version").getAttribute("max")));
    console.log(`        the task has ${end} events`);
    figure("first paint of the long task", await firstPaint(page, long), "ms", 500);
    for (const at of [1, Math.round(end / 2), end]) {
      figure(`its event ${at}`, await timed(page, `${long}?at=${at}`), "ms", 500);
    }
    for (const tab of TABS) {
      const more = tab === "diff" ? "&cmp=3" : "";
      figure(`its tab ${tab} in the middle`, await timed(page, `${long}?at=${Math.round(end / 2)}&tab=${tab}${more}`), "ms", 500);
    }
    await page.goto(`${long}?at=${Math.round(end / 2)}&tab=state`);
    const wide = await tooWide(page);
    must(wide <= 0, `the long task is ${wide} pixels wider than the screen`);
    for (const violation of await violations(page)) must(false, violation);
    await page.goto(`${long}?at=${Math.round(end / 2)}&tab=state`);
    // The page is scrolled to its end and back, a screen at a time: no step may take longer than a person notices.
    const slowest = await page.evaluate(async () => {
      let worst = 0;
      const height = document.documentElement.scrollHeight;
      for (let at = 0; at < height; at += innerHeight) {
        const began = performance.now();
        scrollTo({ top: at, behavior: "instant" });
        await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
        worst = Math.max(worst, performance.now() - began);
      }
      return worst;
    });
    figure("the slowest screen while it scrolls", slowest, "ms", 100);
    await small(page, "in the middle");
    await page.context().close();
  });
  await check("a long task is gone through from its first event to its last one by its pages, and no page is slow or large", async () => {
    const page = await watched(browser, base);
    await page.goto(`${long}?at=1`);
    const end = Number(await page.getByLabel("Version").getAttribute("max"));
    let [seen, slowest, pages] = [0, 0, 0];
    for (;;) {
      const shown = await page.evaluate(() => /Events (\d+) to (\d+)/.exec(document.body.innerText)?.slice(1).map(Number));
      if (!shown) return must(false, `${page.url()} does not say which events it lists`);
      must(shown[0] === seen + 1, `after event ${seen} a page begins with event ${shown[0]}`);
      [seen, pages] = [shown[1], pages + 1];
      const next = page.getByRole("link", { name: "Newer events", exact: true }).first();
      if (await next.count() === 0) break;
      const began = performance.now();
      await Promise.all([page.waitForEvent("load"), next.click()]);
      slowest = Math.max(slowest, performance.now() - began);
    }
    must(seen === end, `the last page ends with event ${seen} of ${end}`);
    console.log(`        ${pages} pages`);
    figure("the slowest of its pages, from the click to its end", slowest, "ms", 500);
    await small(page, "behind all of its pages");
    await page.context().close();
  }, 600);
  await check("the live page of a large log stays small in memory", async () => {
    const page = await watched(browser, base);
    figure("first paint of the live page", await firstPaint(page, `${base}/live`), "ms", 300);
    await small(page, "on the live page");
    await page.context().close();
  });
  await check("on a large log every page answers, in both widths", async () => {
    const page = await watched(browser, base);
    for (const [name, url] of Object.entries(await pagesOf(page, base))) {
      const answer = await page.goto(url);
      must(answer && (answer.status() === 200 || name === "problem"), `${name} was answered with ${answer?.status()}`);
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 900 });
        const wide = await tooWide(page);
        must(wide <= 0, `${name} at ${width}: ${wide} pixels wider than the screen`);
      }
    }
    await page.context().close();
  }, 240);
  await pages.stop();
}
