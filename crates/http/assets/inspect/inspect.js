// What the pages do beside being read: the slider moves at once, keys lead to links, the live page follows the log.
// @ts-check

/** The slider: the number moves with it, and letting go opens the version. */
function slider() {
  const form = document.querySelector("form[data-slider]");
  const range = form?.querySelector("input[type=range]");
  const shown = form?.querySelector("output");
  if (!(form instanceof HTMLFormElement) || !(range instanceof HTMLInputElement) || !shown) return;
  range.addEventListener("input", () => { shown.textContent = range.value; });
  let asked = 0;
  range.addEventListener("change", () => {
    clearTimeout(asked);
    // Keys change it one by one: the page opens when they rest.
    asked = setTimeout(() => form.requestSubmit(), 250);
  });
}

/** Keys that lead where a link leads, unless something is being typed. */
function keys() {
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement) return;
    if (event.key === "/") {
      const jump = document.getElementById("jump");
      if (jump) { event.preventDefault(); jump.focus(); }
      return;
    }
    if (event.key === "Home" || event.key === "End") return;
    for (const link of document.querySelectorAll("a[data-key]")) {
      if (link instanceof HTMLAnchorElement && link.dataset.key === event.key) {
        event.preventDefault();
        link.click();
        return;
      }
    }
  });
}

/** Says that something takes its time. */
function slow() {
  for (const form of document.querySelectorAll("form[data-slow]")) {
    if (!(form instanceof HTMLFormElement)) continue;
    form.addEventListener("submit", () => {
      const said = document.createElement("p");
      said.setAttribute("role", "status");
      said.textContent = `${form.dataset.slow} …`;
      form.after(said);
    });
  }
}

const ROWS_MAX = 2000;

/** A piece of an address that holds a name. Pieces of dots would be taken out. @param {string} name */
function piece(name) {
  const mark = name.startsWith(".") || name.startsWith("~") ? "~" : "";
  return mark + encodeURIComponent(name);
}

/** A cell with a text, perhaps in a link. @param {string} text @param {string} kind @param {string} [url] */
function cell(text, kind, url) {
  const made = document.createElement("td");
  made.className = kind;
  const inner = url ? document.createElement("a") : made;
  if (url) { inner.setAttribute("href", url); made.append(inner); }
  inner.append(text);
  return made;
}

/** The live page: new events on top, with pause, rate and lag. */
function follow() {
  const place = document.querySelector("[data-follow]");
  const rows = document.querySelector("[data-rows]");
  const status = place?.querySelector("[data-status]");
  const pause = place?.querySelector("[data-pause]");
  if (!(place instanceof HTMLElement) || !rows || !status || !(pause instanceof HTMLButtonElement)) return;
  const base = place.dataset.base ?? "";
  let last = Number(place.dataset.next) - 1;
  let head = last, delay = 0, connected = false, paused = false, ended = "", waits = "";
  /** @type {any[]} */
  let held = [];
  /** @type {number[]} */
  let times = [];
  const show = (event) => {
    const row = document.createElement("tr");
    const own = { task: "t", session: "s" }[event.category];
    const raw = `${base}/e/${piece(event.name)}/${event.version}`;
    const page = own ? `${base}/${own}/${piece(event.agent)}/${piece(event.id)}` : raw;
    const state = document.createElement("span");
    state.className = `state ${event.class}`;
    state.textContent = `${event.mark} ${event.kind}`;
    const kind = cell("", "");
    kind.append(state);
    row.append(cell(String(event.position), "figure", own === "t" ? `${page}?at=${event.version}` : raw), cell(event.at, ""), kind, cell(event.stream, "", page), cell(event.line, "words"));
    rows.prepend(row);
    while (rows.children.length > ROWS_MAX) rows.lastElementChild?.remove();
  };
  const asked = place.dataset.follow ?? "";
  /** @param {MessageEvent} message */
  const taken = (message) => {
    const event = JSON.parse(message.data);
    // A browser that comes back names the last id; should one come twice all the same, it is not shown twice.
    if (event.position <= last) return;
    last = event.position;
    head = event.head;
    waits = "";
    delay = Date.now() - Date.parse(event.at);
    times.push(Date.now());
    if (paused) held.push(event); else show(event);
    if (held.length > ROWS_MAX) held = held.slice(-ROWS_MAX);
  };
  /** Follows what is behind the last event; again, after a while, where the browser gave up: it does so after an answer that is none. */
  const open = () => {
    const source = new EventSource(`${asked}${asked.includes("?") ? "&" : "?"}from=${last + 1}`);
    source.onopen = () => { connected = true; };
    source.onerror = () => {
      connected = false;
      if (!ended && source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
    };
    source.addEventListener("failed", (event) => {
      ended = JSON.parse(event.data).error;
      source.close();
    });
    // The program that has the log is gone, and may come back.
    source.addEventListener("waiting", (event) => { waits = JSON.parse(event.data).error; });
    // With a filter: how far the log was looked through.
    source.addEventListener("seen", (event) => {
      waits = "";
      last = Math.max(last, JSON.parse(event.data).seen);
      head = Math.max(head, last);
    });
    source.onmessage = taken;
  };
  open();
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) { held.forEach(show); held = []; }
  });
  // Once a second, so that nobody is read a flood of numbers.
  const tell = () => {
    const now = Date.now();
    times = times.filter((time) => time > now - 10000);
    const rate = (times.length / 10).toFixed(1);
    const state = ended ? `Ended: ${ended}` : connected && waits ? `Waiting for the log: ${waits}` : connected ? (paused ? `Paused, ${held.length} new` : "Following") : "Connecting again";
    const behind = Math.max(0, head - last);
    status.textContent = `${state} · event ${last} · ${rate} a second · ${behind} behind${times.length ? `, ${Math.max(0, delay)} ms old` : ""}`;
  };
  tell();
  setInterval(tell, 1000);
}

slider();
keys();
slow();
follow();
