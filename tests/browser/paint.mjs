// Prints the time until a page is first painted, in milliseconds: node paint.mjs URL
import { firstPaint, launch, watched } from "./guarded.mjs";

const url = process.argv[2];
const browser = await launch();
const page = await watched(browser, url);
console.log((await firstPaint(page, url)).toFixed(1));
await browser.close();
