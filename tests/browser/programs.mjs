// The programs that the checks start: each is ended by its own id, at the latest when the checks end.
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./harness.mjs";

export const work = mkdtempSync(join(tmpdir(), "taskreel-browser-"));
/** @type {Set<import("node:child_process").ChildProcess>} */
const running = new Set();
let program = "taskreel";
let count = 0;

/** Says which program is tested. @param {string} path */
export function use(path) {
  program = path;
}

/** A folder of this run. @param {string} name */
export function folder(name) {
  return join(work, name);
}

/** A program that runs, with what it prints. */
class Running {
  /** @param {string[]} args */
  constructor(args) {
    this.out = folder(`out-${(count += 1)}`);
    const [out, err] = [openSync(this.out, "w"), openSync(`${this.out}.err`, "w")];
    this.child = spawn(program, args, { cwd: work, stdio: ["ignore", out, err] });
    running.add(this.child);
    this.ended = new Promise((end) => {
      this.child.on("exit", (code, signal) => {
        running.delete(this.child);
        end(code ?? signal);
      });
    });
  }

  printed() {
    return readFileSync(this.out, "utf8");
  }

  faults() {
    return readFileSync(`${this.out}.err`, "utf8");
  }

  /** @param {NodeJS.Signals} [signal] */
  async stop(signal = "SIGTERM") {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Starts a command that goes on. @param {string[]} args */
export function start(...args) {
  return new Running(args);
}

/** Runs a command to its end and returns what it prints. @param {string[]} args */
export async function run(...args) {
  const command = new Running(args);
  const code = await command.ended;
  if (code !== 0) throw new Error(`taskreel ${args.join(" ")} ended with ${code}: ${command.faults()}`);
  return command.printed();
}

/** Serves the pages of a log, and returns their address without a slash at its end. @param {string[]} from @param {number} [port] */
export async function inspect(from, port = 0) {
  const serving = start("inspect", ...from, "--listen", `127.0.0.1:${port}`);
  const url = await until(() => {
    if (serving.child.exitCode !== null) throw new Error(`inspect ended: ${serving.faults()}`);
    return serving.printed().match(/^pages at (.*)\/$/m)?.[1];
  }, "the pages are served");
  return { url, stop: (signal) => serving.stop(signal) };
}

/** Returns the events of a log as the command line tells them. @param {string} dir */
export async function events(dir) {
  const printed = await run("events", "--all", "--json", "--data-dir", dir);
  return printed.trim().split("\n").map((line) => JSON.parse(line));
}

/** Returns a port that is free at this moment. @returns {Promise<number>} */
export function freePort() {
  return new Promise((give) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => give(port));
    });
  });
}

/** A task of calls. @param {string} id @param {[string, unknown][]} calls */
export function task(id, calls) {
  const time = "2026-11-24T07:03:20.123456+00:00";
  const parts = calls.map(([tool_name, args], at) => ({ type: "tool_call", content: { tool_name, args, call_id: `c${at + 1}` } }));
  return { id, created_at: time, messages: [{ id: `m-${id}`, role: "user", parts, timestamp: time }] };
}

/** Ends everything that still runs and removes the folders. */
export function end() {
  for (const child of running) child.kill("SIGKILL");
  rmSync(work, { recursive: true, force: true });
}
