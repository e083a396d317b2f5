// Logs whose content is meant to break a page, and logs that are damaged: nothing runs, and what can be read is shown.
import { writeFileSync } from "node:fs";
import { check, fault, must } from "./harness.mjs";
import { tooWide, violations, watched } from "./guarded.mjs";
import { TABS } from "./pages.mjs";
import { folder, inspect, run, task } from "./programs.mjs";

/** Each of them would set `window.ran`, open a dialog or ask elsewhere if it were more than text. */
const TEXTS = [
  "<script>window.ran=1;alert(1)</script>",
  "<img src=x onerror=\"window.ran=1\">",
  "\"><svg onload=window.ran=1><a href=\"javascript:window.ran=1\">x</a>",
  "' onmouseover='window.ran=1' autofocus onfocus='window.ran=1' x='",
  "</pre></title></textarea></style></script><script src=http://127.0.0.1:9/x.js></script>",
  "<link rel=stylesheet href=http://127.0.0.1:9/x.css><img src=http://127.0.0.1:9/x.png><iframe src=http://127.0.0.1:9/></iframe>",
  "<meta http-equiv=refresh content=\"0;url=http://127.0.0.1:9/\"><base href=http://127.0.0.1:9/>",
  "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} <!-- --> ]]>",
  "\u202e002 gnp.exe\u202c \u2066x\u2069 \u200b\u200d\ufeff",
  "\u001b[2J\u001b]0;owned\u0007\u001b[31mred\u0008\u0008 a\u0000b",
];

/** The bytes of the long line; `TASKREEL_LONG_LINE` sets another number. */
const LONG_LINE = Number(process.env.TASKREEL_LONG_LINE ?? 2 * 1024 * 1024);

/** Walks through the pages of a log, follows every link of the first ones, and looks whether anything ran. */
async function walk(page, base, addresses) {
  for (const address of addresses) {
    const answer = await page.goto(address);
    if (!answer) { fault(`${address} gave no answer`); continue; }
    // What listens to a mouse or to the focus gets both.
    await page.evaluate(() => {
      for (const part of document.querySelectorAll("main *")) {
        for (const kind of ["mouseover", "focus", "error", "load"]) part.dispatchEvent(new Event(kind));
      }
    });
    must(await page.evaluate(() => window.ran === undefined), `${address}: something of the log ran`);
    must(new URL(page.url()).origin === new URL(base).origin, `${address} leads to ${page.url()}`);
    const foreign = await page.evaluate(() => [...document.querySelectorAll("main script, main iframe, main img, main link, main meta, main base, main style, main object, main embed")].length);
    must(foreign === 0, `${address}: ${foreign} elements of the log's content`);
  }
}

/** Runs tasks, of which some fail as they should: the exit code says so. */
async function runTasks(name, dir, tasks, ...more) {
  const file = folder(`${name}.ndjson`);
  writeFileSync(file, tasks.map((one) => JSON.stringify(one)).join("\n"));
  await run("run", file, ...more, "--data-dir", dir).catch((error) => {
    if (!/ended with 1:/.test(error.message)) throw error;
  });
}

/** @param {import("playwright-core").Browser} browser */
export async function hostile(browser) {
  await check("markup, escapes and turned text of a log are shown as text and never run", async () => {
    const named = (text) => [...text].filter((letter) => letter > "\u001f" && letter !== "\u007f").join("");
    const tasks = TEXTS.flatMap((text, at) => [
      task(`${at} ${named(text)}`, [["echo", { text }]]),
      task(`failed-${at}`, [["fail", { message: text }]]),
      { ...task(`talk-${at}`, []), messages: [{ id: `m${at}`, role: "user", parts: [{ type: "infer", content: { prompt: text } }], timestamp: "2026-11-24T07:03:20+00:00" }], metadata: { session_id: `s-${at}` } },
    ]);
    tasks.push(task("called", TEXTS.map((text) => [text.slice(0, 60), { text }])));
    const script = folder("script.json");
    writeFileSync(script, JSON.stringify(TEXTS.map((text) => ({ type: "final", content: text }))));
    const dir = folder("hostile");
    await runTasks("hostile", dir, tasks, "--script", script);
    const pages = await inspect(["--data-dir", dir]);
    const { url } = pages;
    const page = await watched(browser, url);
    await page.goto(`${url}/`);
    const text = await page.locator("main").innerText();
    for (const shown of TEXTS.slice(0, 3)) must(text.includes(shown), `${shown} is not shown`);
    must(text.includes("⟨U+202E⟩"), "a character that turns text is not named");
    const tasksUrls = await page.locator("table.rows tbody th a").evaluateAll((links) => links.map((link) => link.href));
    must(tasksUrls.length > TEXTS.length, `${tasksUrls.length} tasks are listed`);
    const addresses = [`${url}/sessions`, `${url}/live`, `${url}/tools`, `${url}/audit?verify=1`];
    for (const text of TEXTS) addresses.push(`${url}/?text=${encodeURIComponent(text)}&agent=${encodeURIComponent(text)}&not=${encodeURIComponent(`text=${text}`)}`);
    for (const [at, task] of tasksUrls.entries()) addresses.push(`${task}?tab=${TABS[at % TABS.length]}&at=4`, `${task}?tab=event&at=1`);
    await walk(page, url, addresses);
    await page.goto(`${url}/sessions`);
    const sessions = await page.locator("table.rows tbody th a").evaluateAll((links) => links.map((link) => link.href));
    await walk(page, url, sessions);
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      for (const address of [`${url}/`, tasksUrls[0], `${url}/tools`, `${url}/live`]) {
        await page.goto(address);
        const wide = await tooWide(page);
        must(wide <= 0, `${address} at ${width}: ${wide} pixels wider than the screen`);
      }
    }
    await page.context().close();
    await pages.stop();
  });
  await check(`a line of ${LONG_LINE} bytes is shown by its beginning, and whole only when it is asked for`, async () => {
    const long = folder("long-line");
    const text = "<b>x".repeat(LONG_LINE / 4);
    await runTasks("long-line", long, [task("long-line", [["echo", { text }]]), task("long-failure", [["fail", { message: text }]])]);
    const pages = await inspect(["--data-dir", long]);
    const page = await watched(browser, pages.url);
    await page.goto(`${pages.url}/open?id=long-line`);
    const task_ = page.url();
    const failed = task_.replace("long-line", "long-failure");
    for (const address of [`${pages.url}/`, `${pages.url}/live`, `${pages.url}/tools`, ...TABS.map((tab) => `${task_}?tab=${tab}`), `${task_}?at=1`, `${failed}?tab=call`]) {
      const answer = await page.goto(address);
      const size = (await answer?.body())?.length ?? 0;
      must(size < 1_000_000, `${address} has ${size} bytes`);
      must((await page.locator("main b").count()) === 0, `${address} has elements of the log's content`);
    }
    await page.goto(`${task_}?at=1`);
    const whole = page.locator(".rest a").first();
    const body = await page.request.get(new URL(await whole.getAttribute("href"), page.url()).href);
    must((await body.body()).length > LONG_LINE, "the whole is not there");
    must(body.headers()["content-type"]?.startsWith("text/plain"), `the whole is ${body.headers()["content-type"]}`);
    await page.context().close();
    await pages.stop();
  });
  await check("a log that is damaged in its middle shows what can be read, and says that it is damaged", async () => {
    const dir = folder("to-damage");
    await runTasks("to-damage", dir, Array.from({ length: 20 }, (_, at) => task(`task-${at}`, [["echo", { text: `text ${at}` }]])));
    const exported = await run("export", "--data-dir", dir);
    const lines = exported.split("\n");
    // A digit of the stored bytes of a record in the middle.
    const middle = lines.findIndex((line, at) => at > lines.length / 2 && line.includes('"stream":"task-'));
    const at = lines[middle].indexOf('"bytes":"') + 49;
    lines[middle] = lines[middle].slice(0, at) + (lines[middle][at] === "0" ? "1" : "0") + lines[middle].slice(at + 1);
    const file = folder("damaged.ndjson");
    for (const [name, content] of [["changed", lines.join("\n")], ["cut off", exported.slice(0, exported.length * 0.6)]]) {
      writeFileSync(file, content);
      const pages = await inspect(["--file", file]);
      const page = await watched(browser, pages.url);
      await page.goto(`${pages.url}/`);
      must((await page.locator(".alert.bad").count()) > 0, `${name}: the runs do not say that the log is damaged`);
      const tasks = await page.locator("main a[href*='/t/']").evaluateAll((links) => [...new Set(links.map((link) => link.href))]);
      must(tasks.length > 5, `${name}: only ${tasks.length} tasks are shown`);
      await walk(page, pages.url, [...tasks.slice(0, 12), `${pages.url}/live`, `${pages.url}/tools`, `${pages.url}/sessions`]);
      await page.goto(`${pages.url}/audit?verify=1`);
      must((await page.locator(".alert.bad").count()) > 0, `${name}: the audit finds nothing`);
      for (const violation of await violations(page)) fault(`${name}: ${violation}`);
      await page.context().close();
      await pages.stop();
    }
  });
}
