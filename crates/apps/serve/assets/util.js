// Small helpers that all parts of the page use.

/** Returns the element with this id. */
const byId = (id) => document.getElementById(id);

/** Creates an element. Text never becomes markup. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** The token from the fragment of the URL. A reload of the tab keeps it. */
const token = (() => {
  const found = /(?:^|[#&])token=([0-9a-f]{64})(?:&|$)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
})();

/** An answer of the server that is not a success. */
class RequestError extends Error {
  constructor(status, answer) {
    super(answer?.error ?? `the server answered with status ${status}`);
    this.status = status;
    this.problem = answer?.problem ?? null;
  }
}

/** Sends a request to the API and returns the JSON of its answer. */
async function request(path, body = undefined) {
  const options = { headers: { Authorization: `Bearer ${token}` } };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new RequestError(response.status, answer);
  return answer;
}

/**
 * Reads an event stream and calls `onUpdate` with each event. `EventSource` cannot send the token in a header, so this
 * function parses the stream. Resolves when the stream ends.
 */
async function readEvents(path, signal, onUpdate) {
  const response = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, signal });
  if (!response.ok) throw new RequestError(response.status, await response.json().catch(() => null));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
      if (data.length > 0) onUpdate(JSON.parse(data.join("\n")));
    }
  }
}

/** Calls a function after no further call came for `delay` milliseconds. */
function debounce(delay, callback) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(callback, delay);
  };
}

/** Formats a number with about four digits. */
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** Formats a duration in seconds. */
function formatSeconds(seconds) {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Formats a size in bytes. */
function formatBytes(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit + 1 < units.length) {
    bytes /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${units[unit]}`;
}

/** Builds a table. `rows` contains lists of cells; a number is aligned to the right. */
function buildTable(caption, header, rows) {
  const cell = (content) => {
    if (content instanceof Node) return element("td", {}, content);
    if (content && typeof content === "object") {
      return element("td", { class: content.class, title: content.title }, content.text ?? "");
    }
    return element("td", {}, content ?? "");
  };
  const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...rest]) => {
    const content = first instanceof Node ? first : String(first ?? "");
    return element("tr", {}, element("th", { scope: "row" }, content), ...rest.map(cell));
  });
  const table = element("table", { class: "numbers" }, element("caption", { class: "hidden" }, caption),
    element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption }, table);
}

/** Saves a text as a file. */
function saveText(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
