// Checks one after another: each has a name that says what holds, its own time limit, and counts as passed or failed.
const only = process.env.TASKREEL_BROWSER_ONLY;
let passed = 0;
let failed = 0;
/** @type {string[]} */
let current = [];

/** Notes what is wrong in the check that runs. @param {unknown} what */
export function fault(what) {
  if (current.length < 20) current.push(String(what));
}

/** Notes a fault unless something holds. @param {unknown} holds @param {string} what */
export function must(holds, what) {
  if (!holds) fault(what);
}

/** Carries out a check. @param {string} name @param {() => Promise<void>} work @param {number} [seconds] */
export async function check(name, work, seconds = 120) {
  if (only && !only.split("|").some((part) => name.includes(part))) return;
  current = [];
  const began = Date.now();
  let timer;
  const late = new Promise((_, refuse) => {
    timer = setTimeout(() => refuse(new Error(`not done within ${seconds} s`)), seconds * 1000);
  });
  try {
    await Promise.race([work(), late]);
  } catch (error) {
    fault(error instanceof Error ? error.stack : error);
  } finally {
    clearTimeout(timer);
  }
  const took = `${((Date.now() - began) / 1000).toFixed(1)} s`;
  if (current.length === 0) {
    passed += 1;
    console.log(`ok      ${name} (${took})`);
  } else {
    failed += 1;
    console.log(`FAILED  ${name} (${took})`);
    for (const what of current) console.log(`        ${what.replaceAll("\n", "\n        ")}`);
  }
}

/** The times a budget that a figure may be: machines of CI are slow and shared, and a program for tests is not optimised. */
let slack = 4;

/** Says which program is measured. @param {string} program */
export function measured(program) {
  if (program.includes("/debug/")) slack = 12;
}

/** Prints a figure beside its budget, and fails the check far above it. @param {string} what @param {number} value @param {string} unit @param {number} budget @param {number} [times] the times its budget that it may be, where no slow machine excuses it */
export function figure(what, value, unit, budget, times = slack) {
  const met = value <= budget ? "met" : "MISSED";
  console.log(`        ${what.padEnd(58)} ${value.toFixed(1).padStart(9)} ${unit.padEnd(3)} budget ${budget} ${unit}: ${met}`);
  if (value > budget * times) fault(`${what}: ${value.toFixed(1)} ${unit} is more than ${times} times the budget of ${budget} ${unit}`);
}

/** Waits until something holds. @template T @param {() => T | Promise<T>} asked @param {string} what @returns {Promise<T>} */
export async function until(asked, what, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const got = await asked();
    if (got) return got;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((go) => setTimeout(go, 20));
  }
}

/** Prints how many checks passed, and returns whether all did. */
export function summary() {
  console.log(`browser: ${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}
