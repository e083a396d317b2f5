// Looks at the inspector's pages in a browser. Usage: node main.mjs PROGRAM [FOLDER FOR SCREENSHOTS]
import { check, measured, summary } from "./harness.mjs";
import { launch, watched } from "./guarded.mjs";
import { hostile } from "./hostile.mjs";
import { keyboard } from "./keyboard.mjs";
import { large } from "./large.mjs";
import { live } from "./live.mjs";
import { every, pagesOf, paper } from "./pages.mjs";
import { end, inspect, run, use } from "./programs.mjs";
import { reported } from "./report.mjs";
import { shots } from "./shots.mjs";

const [program, pictures] = process.argv.slice(2);
use(program);
measured(program);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => { end(); process.exit(1); });
const browser = await launch();
try {
  // As somebody types it who tries it: the log is in `taskreel-demo`.
  await run("demo", "--pace", "5");
  const pages = await inspect([]);
  const page = await watched(browser, pages.url);
  const found = await pagesOf(page, pages.url);
  await page.context().close();
  if (pictures) await shots(browser, pages.url, found, pictures);
  await every(browser, pages.url, found, "a demo");
  await paper(browser, pages.url, found);
  await keyboard(browser, pages.url, found);
  await reported(browser, found);
  await pages.stop();
  await live(browser);
  await hostile(browser);
  await large(browser);
} catch (error) {
  await check("the checks go on to their end", async () => { throw error; });
} finally {
  await browser.close();
  end();
}
process.exit(summary() ? 0 : 1);
