// The live page while programs run, die and come back: its rows are those of the log, none lost, none repeated, in order.
import { check, fault, must, until } from "./harness.mjs";
import { watched } from "./guarded.mjs";
import { events, folder, freePort, inspect, start, task } from "./programs.mjs";
import { cutting } from "./proxy.mjs";

/** How often the connection is broken; `TASKREEL_RECONNECTS` sets another number. */
const RECONNECTS = Number(process.env.TASKREEL_RECONNECTS ?? 250);

/** Keeps every row that ever stood on the page, in the order in which it came. */
const keepRows = () => {
  window.rowsSeen = [];
  const see = (rows) => {
    const names = [...rows.closest("table").querySelectorAll("thead th")].map((cell) => cell.textContent);
    const of = (row) => ["Position", "Event", "Stream"].map((name) => row.children[names.indexOf(name)].textContent.trim());
    window.rowsSeen.push(...[...rows.children].reverse().map(of));
    new MutationObserver((changes) => {
      for (const change of changes) for (const row of change.addedNodes) {
        if (row instanceof HTMLTableRowElement) {
          window.rowsSeen.push(of(row));
          window.isOnTop &&= row === rows.firstElementChild || rows.contains(row);
        }
      }
    }).observe(rows, { childList: true });
  };
  document.addEventListener("readystatechange", () => {
    const rows = document.querySelector("[data-rows]");
    if (document.readyState === "interactive" && rows) see(rows);
  });
};

/** @param {import("playwright-core").Browser} browser @param {string} url */
async function followed(browser, url) {
  const page = await watched(browser, url, {}, true);
  await page.addInitScript(keepRows);
  await page.goto(`${url}/live`);
  must((await page.locator("[data-follow]").count()) === 1, "the page does not follow the log");
  return page;
}

const rowsOf = (page) => page.evaluate(() => window.rowsSeen);
const lastOf = (page) => page.evaluate(() => Number(window.rowsSeen.at(-1)?.[0] ?? 0));

/** Compares the rows of a page with the log, from the first row on. */
function compare(rows, log) {
  const first = Number(rows[0][0]);
  const wanted = log.filter((event) => event.position >= first);
  must(rows.length === wanted.length, `${rows.length} rows for ${wanted.length} events`);
  for (const [at, event] of wanted.entries()) {
    const row = rows[at] ?? [];
    const isSame = Number(row[0]) === event.position && row[1]?.endsWith(event.kind) && row[2] === event.stream;
    if (!isSame) return fault(`row ${at} is ${row.join(" ")}, and event ${event.position} of the log is ${event.kind} of ${event.stream}`);
  }
}

/** Whether the rows that stand on the page go down from the newest one. */
async function isInOrder(page) {
  return page.locator("[data-rows] tr td:first-child").evaluateAll((cells) => {
    const places = cells.map((cell) => Number(cell.textContent));
    return places.every((place, at) => at === 0 || place === places[at - 1] - 1);
  });
}

/** @param {import("playwright-core").Browser} browser */
export async function live(browser) {
  await check("the live page has each event once and in order while a demo runs, is killed and resumed, and the pages' server restarts", async () => {
    const dir = folder("lived");
    const demo = (...more) => start("demo", "--data-dir", dir, "--pace", "25", ...more);
    const first = demo("--tasks", "40");
    await until(() => first.printed().split("\n").length > 20, "the demo has begun");
    const port = await freePort();
    let pages = await inspect(["--data-dir", dir], port);
    const page = await followed(browser, pages.url);
    const begun = await lastOf(page);
    await until(async () => (await lastOf(page)) > begun + 20, "events come while the demo runs");
    await first.stop("SIGKILL");
    const killed = await lastOf(page);
    const second = demo("--resume");
    await until(() => second.printed().split("\n").length > 5, "the demo is resumed");
    await pages.stop();
    await until(async () => (await page.locator("[data-status]").innerText()).startsWith("Connecting again"), "the page says that it has lost its server");
    pages = await inspect(["--data-dir", dir], port);
    await until(async () => (await lastOf(page)) > killed + 20, "events come after the demo was resumed");
    must((await second.ended) === 0, `the resumed demo ended with ${await second.ended}: ${second.faults()}`);
    const log = await events(dir);
    await until(async () => (await lastOf(page)) >= log.length, "the page has the end of the log");
    compare(await rowsOf(page), log);
    must(await isInOrder(page), "the rows do not stand in the order of the log");
    await page.context().close();
    await pages.stop();
  });
  await check(`${RECONNECTS} broken connections lose and repeat no event`, async () => {
    const dir = folder("broken");
    const port = await freePort();
    const server = start("serve", "--data-dir", dir, "--listen", `127.0.0.1:${port}`);
    await until(() => server.printed().includes("listening at"), `the server listens: ${server.faults()}`);
    const post = async (id) => {
      const body = JSON.stringify(task(id, [["echo", { text: `${id} ${"x".repeat((Number(id.slice(5)) * 37) % 900)}` }], ["add", { a: 1, b: 2 }]]));
      const answer = await fetch(`http://127.0.0.1:${port}/tasks/`, { method: "POST", headers: { "content-type": "application/json" }, body });
      must(answer.status === 200, `a task was answered with ${answer.status}: ${await answer.text()}`);
    };
    await post("task-0");
    // In the middle of the head, of an event, between two: a pseudorandom number of bytes, the same in each run.
    let dice = 7;
    const proxy = await cutting(port, () => 500 + ((dice = (dice * 48271) % 2147483647) % 3000));
    const page = await followed(browser, `http://127.0.0.1:${proxy.port}/inspect`);
    let number = 1;
    // The writer keeps ahead of a page that gets a few events with each connection.
    while (proxy.cuts() < RECONNECTS) {
      const head = Number(await page.evaluate(() => window.rowsSeen.length));
      if (number * 10 - head < 400) await Promise.all(Array.from({ length: 8 }, () => post(`task-${number++}`)));
      else await new Promise((go) => setTimeout(go, 20));
    }
    const log = await events(dir);
    await until(async () => (await lastOf(page)) >= log.length, "the page has the end of the log");
    console.log(`        ${proxy.cuts()} broken connections, ${log.length} events`);
    compare(await rowsOf(page), log);
    must(await isInOrder(page), "the rows do not stand in the order of the log");
    await page.context().close();
    proxy.stop();
    await server.stop();
  }, 60 + RECONNECTS / 2);
}
