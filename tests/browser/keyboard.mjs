// By keyboard alone: every stop can be seen and comes in the order of the page, and what the mouse does, keys do.
import { check, fault, must } from "./harness.mjs";
import { watched } from "./guarded.mjs";

/** @param {import("playwright-core").Browser} browser @param {string} base @param {Record<string, string>} found */
export async function keyboard(browser, base, found) {
  await check("the keyboard stops at everything that can be used, in the order of the page, and sees where it is", async () => {
    // What scrolls smoothly is not yet in sight when it is looked at.
    const page = await watched(browser, base, { reducedMotion: "reduce" });
    for (const name of ["runs", "task-event", "compare", "live", "tools-and-models"]) {
      if (!found[name]) { fault(`there is no page ${name}`); continue; }
      await page.goto(found[name]);
      await page.keyboard.press("Tab");
      const first = await page.evaluate(() => document.activeElement?.textContent);
      must(first === "Skip to the content", `${name}: the first stop is ${first}`);
      must(await page.locator("a.skip").evaluate((link) => link.getBoundingClientRect().left >= 0), `${name}: the skip link stays out of sight`);
      await page.keyboard.press("Enter");
      must(await page.evaluate(() => document.activeElement?.id === "main"), `${name}: the skip link does not lead to the content`);
      await page.goto(found[name]);
      const stops = await page.evaluate(() => {
        const all = [...document.querySelectorAll("a[href], button, input, summary, [tabindex]")];
        const isStop = (part) => part.tabIndex >= 0 && part.checkVisibility({ visibilityProperty: true }) && !part.disabled;
        window.stops = all.filter(isStop);
        return window.stops.length;
      });
      const visited = Math.min(stops, 60);
      let last = -1;
      for (let count = 0; count < visited; count += 1) {
        await page.keyboard.press("Tab");
        const stop = await page.evaluate(() => {
          const at = document.activeElement;
          const style = getComputedStyle(at);
          const box = at.getBoundingClientRect();
          const isSeen = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
          return { number: window.stops.indexOf(at), what: at.outerHTML.slice(0, 80), isSeen, hasOutline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 };
        });
        must(stop.number === last + 1, `${name}: stop ${count} is ${stop.what}, number ${stop.number} of the page after ${last}`);
        must(stop.isSeen, `${name}: ${stop.what} is out of sight when it has the focus`);
        must(stop.hasOutline, `${name}: ${stop.what} does not show the focus`);
        last = stop.number;
      }
    }
    await page.context().close();
  });
  await check("the slider, the keys of a task, a filter and a folded table are used by keyboard alone", async () => {
    const page = await watched(browser, base);
    await page.goto(found["task-event"].replace(/at=\d+/, "at=9"));
    await page.getByLabel("Version").focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForURL(/at=10(&|$)/);
    await page.keyboard.press("]");
    await page.waitForURL(/at=11(&|$)/);
    await page.keyboard.press("{");
    await page.waitForURL((url) => !/at=11(&|$)/.test(url.href));
    await page.keyboard.press("m");
    await page.waitForURL(/cmp=\d+/);
    const details = page.locator("main details").first();
    await details.locator("summary").focus();
    await page.keyboard.press("Enter");
    must(await details.evaluate((part) => part.open), "a folded table does not open by Enter");
    await page.keyboard.press("Space");
    must(!(await details.evaluate((part) => part.open)), "it does not close by the space bar");
    await page.goto(`${base}/`);
    await page.keyboard.press("/");
    must(await page.evaluate(() => document.activeElement?.id === "jump"), "the key / does not lead to the field for an id");
    await page.locator("details.filter summary").focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Tool").focus();
    await page.keyboard.type("pay");
    await page.keyboard.press("Enter");
    await page.waitForURL(/tool=pay/);
    const rows = await page.locator("table.rows tbody tr").count();
    must(rows > 0, "the filter finds nothing");
    const chip = page.locator(".chips a").first();
    await chip.focus();
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => !url.href.includes("tool=pay"));
    must((await page.locator("table.rows tbody tr").count()) > rows, "without the condition there are no more rows");
    // The choice of colours stays.
    await page.getByRole("link", { name: "dark", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await page.context().close();
  });
}
