// Every page of a log: axe in both themes, both widths without a horizontal scroll, print, and reading without a script.
import { check, fault, must } from "./harness.mjs";
import { tooWide, violations, watched } from "./guarded.mjs";

/** The tabs of a task. */
export const TABS = ["event", "call", "prompt", "state", "diff", "cause", "recovery", "artifacts", "raw", "sequence", "graph"];

/** The pages of a log: those of the navigation, and what they lead to first. @param {import("playwright-core").Page} page @param {string} base */
export async function pagesOf(page, base) {
  await page.goto(`${base}/`);
  const nav = await page.locator("header nav a").evaluateAll((links) => links.map((link) => [link.textContent, link.href]));
  const tasks = await page.locator("table.rows tbody tr").evaluateAll((rows) => rows.map((row) => {
    const figures = [...row.querySelectorAll("td.figure")].map((cell) => cell.textContent.trim());
    return { url: row.querySelector("th a").href, events: Number(figures[0].replaceAll(",", "")), tokens: figures[2] };
  }));
  const infers = tasks.filter((task) => task.tokens);
  const most = (infers.length ? infers : tasks).sort((a, b) => b.events - a.events)[0];
  await page.goto(`${base}/sessions`);
  const sessions = await page.locator("table.rows tbody tr").evaluateAll((rows) =>
    rows.sort((a, b) => Number(b.querySelector("td.figure")?.textContent) - Number(a.querySelector("td.figure")?.textContent))
      .map((row) => row.querySelector("th a").href));
  /** @type {Record<string, string>} */
  const found = {};
  for (const [name, url] of nav) found[name.toLowerCase().replaceAll(" ", "-")] = url;
  found.filtered = `${base}/?state=completed&not=tool%3Dlookup`;
  found["nothing-found"] = `${base}/?agent=nobody`;
  found.audit = `${base}/audit?verify=1`;
  found.problem = `${base}/t/demo/nothing-of-this-name`;
  const id = (url) => decodeURIComponent(new URL(url).pathname.split("/").pop());
  // Two that have as many events, if there are: they may have taken the same way.
  const alike = tasks.flatMap((one, at) => tasks.slice(at + 1).filter((other) => other.events === one.events).map((other) => [one, other]))[0] ?? tasks;
  if (alike.length > 1) found.compare = `${base}/compare?l=${encodeURIComponent(id(alike[0].url))}&r=${encodeURIComponent(id(alike[1].url))}`;
  const [agent, name] = new URL(most.url).pathname.split("/").slice(-2);
  found.record = `${base}/e/task-${agent}%2F${name}/1`;
  if (sessions[0]) found.session = sessions[0];
  const at = Math.min(9, most.events);
  for (const tab of TABS) found[`task-${tab}`] = `${most.url}?at=${at}&tab=${tab}${tab === "diff" ? "&cmp=3" : ""}`;
  return found;
}

/** Checks every page of a log. @param {import("playwright-core").Browser} browser @param {string} base @param {Record<string, string>} found @param {string} of */
export async function every(browser, base, found, of) {
  for (const [theme, first] of /** @type {["light" | "dark", number][]} */ ([["light", 1280], ["dark", 360]])) {
    await check(`every page of ${of} in ${theme}: axe finds nothing, no page is wider than a screen of 1280 or 360 pixels`, async () => {
      const page = await watched(browser, base, { colorScheme: theme });
      for (const [name, url] of Object.entries(found)) {
        for (const width of [first === 1280 ? 360 : 1280, first]) {
          await page.setViewportSize({ width, height: 900 });
          if (width !== first) await page.goto(url);
          const wide = await tooWide(page);
          must(wide <= 0, `${name} at ${width}: ${wide} pixels wider than the screen`);
        }
        for (const violation of await violations(page)) fault(`${name} at ${first} ${theme}: ${violation}`);
      }
      await page.context().close();
    });
  }
}

/** Checks printing and reading without a script. @param {import("playwright-core").Browser} browser @param {string} base @param {Record<string, string>} found */
export async function paper(browser, base, found) {
  await check("each page can be printed: nothing is cut off, and what is only pressed is left out", async () => {
    const page = await watched(browser, base);
    await page.emulateMedia({ media: "print" });
    for (const [name, url] of Object.entries(found)) {
      await page.goto(url);
      const cut = await page.evaluate(() => [...document.querySelectorAll("main pre, main .scroll")].filter((part) => {
        const style = getComputedStyle(part);
        return (part.scrollHeight > part.clientHeight + 2 && style.overflowY !== "visible") || (style.overflowX !== "visible" && part.scrollWidth > part.clientWidth + 2);
      }).length);
      must(cut === 0, `${name}: ${cut} parts are cut off`);
      const pressed = await page.locator("header nav, form.slider button").evaluateAll((parts) => parts.filter((part) => part.checkVisibility()).length);
      must(pressed === 0, `${name}: ${pressed} parts that are only pressed are printed`);
    }
    must((await page.pdf()).length > 5_000, "the paper is empty");
    await page.context().close();
  });
  await check("without a script every page reads the same, and forms and links lead on", async () => {
    const page = await watched(browser, base);
    const plain = await watched(browser, base, { javaScriptEnabled: false });
    for (const [name, url] of Object.entries(found)) {
      const text = async (of) => {
        await of.goto(url);
        // Ages and times that something took differ between two looks.
        return (await of.locator("main").innerText()).replace(/\b(?:[\d.,]+ (?:µs|ms|s|min|h|d)\b ?)+/g, "TIME ");
      };
      const [with_, without] = [await text(page), await text(plain)];
      must(name === "live" || with_ === without, `${name} differs:\n${firstDifference(with_, without)}`);
      must(without.length > 10, `${name} has no text`);
    }
    await plain.goto(found["task-event"]);
    await plain.getByRole("button", { name: "Go" }).click();
    must(plain.url().includes("at="), `the form of the slider leads to ${plain.url()}`);
    await plain.goto(`${base}/`);
    await plain.locator("details.filter summary").click();
    await plain.getByLabel("Tool").fill("lookup");
    await plain.getByRole("button", { name: "Filter" }).click();
    must(plain.url().includes("tool=lookup"), `the filter leads to ${plain.url()}`);
    must((await plain.locator("table.rows tbody tr").count()) > 0, "the filter finds nothing");
    await page.context().close();
    await plain.context().close();
  });
}

function firstDifference(one, other) {
  const [ones, others] = [one.split("\n"), other.split("\n")];
  const at = ones.findIndex((line, number) => line !== others[number]);
  return `${ones[at]}\n${others[at]}`;
}
