// Looks at every page of the inspector at two widths in both themes: axe finds nothing, no page is wider than the screen, no script
// or style is refused, and the keyboard does what the mouse does. Usage: node pages.mjs URL [FOLDER FOR SCREENSHOTS]
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [base, shots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];
const fault = (what) => { faults.push(what); console.error(`FAULT ${what}`); };

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});

/** The pages that are looked at: those of the navigation, and what they lead to first. */
async function pages(page) {
  await page.goto(`${base}/`);
  const task = await page.locator("table.rows tbody th a").evaluateAll((links) => links.map((link) => link.href));
  const most = await page.locator("table.rows tbody tr").evaluateAll((rows) => {
    const events = (row) => Number(row.querySelector("td.figure")?.textContent.replace(/,/g, ""));
    const infers = rows.filter((row) => row.querySelectorAll("td.figure")[2]?.textContent.trim());
    return (infers.length ? infers : rows).sort((a, b) => events(b) - events(a))[0].querySelector("th a").href;
  });
  await page.goto(`${base}/sessions`);
  const sessions = page.locator("table.rows tbody tr");
  const session = await sessions.evaluateAll((rows) => {
    const turns = (row) => Number(row.querySelector("td.figure")?.textContent);
    return rows.sort((a, b) => turns(b) - turns(a))[0]?.querySelector("th a").href;
  });
  const found = {
    runs: `${base}/`,
    filtered: `${base}/?state=completed&not=tool%3Dlookup`,
    sessions: `${base}/sessions`,
    live: `${base}/live`,
    tools: `${base}/tools`,
    audit: `${base}/audit?verify=1`,
    compare: `${base}/compare?l=${encodeURIComponent(task[0].split("/").pop())}&r=${encodeURIComponent(task[1].split("/").pop())}`,
    problem: `${base}/t/demo/nothing-of-this-name`,
    event: most.replace("/t/demo/", "/e/task-demo%2F") + "/1",
  };
  if (session) found.session = session;
  for (const tab of ["event", "call", "prompt", "state", "diff", "cause", "recovery", "artifacts", "raw"]) {
    found[`task-${tab}`] = `${most}?at=9&tab=${tab}${tab === "diff" ? "&cmp=3" : ""}`;
  }
  return found;
}

const began = Date.now();
let looked = 0;
let found;
for (const theme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
    const page = await context.newPage();
    page.on("console", (message) => {
      const is404 = message.text().includes("404");
      if (message.type() === "error" && !is404) fault(`${page.url()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => fault(`${page.url()}: ${error}`));
    found ??= await pages(page);
    for (const [name, url] of Object.entries(found)) {
      await page.goto(url);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow > 0) fault(`${name} at ${width}: ${overflow} pixels wider than the screen`);
      // As a debugger would, since the policy of the page lets no other script in.
      await page.evaluate(`(() => { ${axe} })(); undefined`);
      const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const violation of result.violations) {
        const where = violation.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ");
        fault(`${name} at ${width} ${theme}: ${violation.id} (${violation.nodes.length}): ${where}`);
      }
      looked += 1;
      if (shots) {
        mkdirSync(shots, { recursive: true });
        await page.screenshot({ path: `${shots}/${name}-${width}-${theme}.png`, fullPage: true });
      }
    }
    await context.close();
  }
}

// By keyboard alone: the skip link, a version by the slider, the next event by its key.
const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
await page.goto(found["task-event"]);
await page.keyboard.press("Tab");
const skip = await page.evaluate(() => document.activeElement?.textContent);
if (skip !== "Skip to the content") fault(`the first stop of the keyboard is ${skip}`);
await page.getByLabel("Version").focus();
await page.keyboard.press("ArrowRight");
await page.waitForURL(/at=10/);
await page.keyboard.press("]");
await page.waitForURL(/at=11/);
await page.keyboard.press("{");
await page.waitForURL((url) => !/at=11(&|$)/.test(url.href));
// The choice of colours stays.
await page.getByRole("link", { name: "dark", exact: true }).click();
if ((await page.locator("html").getAttribute("data-theme")) !== "dark") fault("the theme was not chosen");
// Without a script everything can be read, and the slider's form leads on.
const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
await plain.goto(found["task-event"]);
await plain.getByRole("button", { name: "Go" }).click();
if (!plain.url().includes("at=9")) fault(`the form without a script leads to ${plain.url()}`);

await browser.close();
console.log(`${looked} pages looked at in ${((Date.now() - began) / 1000).toFixed(1)} s, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
