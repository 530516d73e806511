// Connects the editor, the controls, the plots and the server.

const LIVE_CHARTS = {
  rate: (info) => ({ title: `${info.of}: rate${info.flows > 1 ? ` per flow (mean of ${info.flows})` : ""}`, unit: "Gbps" }),
  queue: (info) => ({ title: `${info.of}: longest queue`, unit: "kB" }),
  messages: () => ({ title: "Finished messages", unit: "messages", hideZero: true }),
  drops: () => ({ title: "Dropped packets", unit: "packets", hideZero: true }),
};

class App {
  async start() {
    if (!token) return this.fail("This address has no token. Open the URL that `poseidon serve` printed in your terminal.");
    let start, schema;
    try {
      [start, schema] = await Promise.all([request("/api/start"), request("/api/schema")]);
    } catch (error) {
      return this.fail(error.status === 401
        ? "The token of this address is not valid any more. Open the URL that `poseidon serve` printed in your terminal."
        : `The server does not answer: ${error.message}.`);
    }
    this.lab = { fileKey: start.file_key, output: start.output, input: start.input };
    byId("program").textContent = start.program;
    this.styles = new Styles(start.laws);
    this.grid = new ChartGrid(byId("charts"), "live", this.styles);
    this.comparison = new Comparison(this.lab, this.styles);
    this.name = start.first.name;
    this.selection = new Map();
    this.sweepKey = "";
    this.editor = new Editor({ onChange: debounce(300, () => this.check()), onRun: () => this.run() });
    this.editor.completer = new Completer(schema, start.names);
    this.fillChooser(start);
    this.bind();
    this.restoreDraft() || this.load(start.first.name, start.first.text);
    await this.resume();
    document.documentElement.dataset.ready = "true";
  }

  /** Shows an error that the page cannot recover from. */
  fail(message) {
    byId("notice").textContent = message;
    byId("notice").hidden = false;
    byId("run").disabled = true;
  }

  fillChooser({ scenarios, files, first }) {
    const groups = new Map();
    const add = (group, value, label) => groups.set(group, [...(groups.get(group) ?? []), element("option", { value }, label)]);
    add("Open", "first:", first.name);
    add("Open", "new:", "A small new scenario");
    for (const file of files) add("Files in this folder", `file:${file}`, file);
    for (const { name, title } of scenarios) {
      const folder = name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : "Built in";
      add(folder, `name:${name}`, `${name.split("/").pop()}: ${title}`);
    }
    byId("chooser").replaceChildren(...[...groups].map(([label, options]) => element("optgroup", { label }, ...options)));
    this.first = first;
  }

  bind() {
    byId("chooser").addEventListener("change", () => this.choose(byId("chooser").value));
    byId("run").addEventListener("click", () => this.run());
    byId("stop").addEventListener("click", () => this.stop());
    byId("save").addEventListener("click", () => saveText(`${this.name.split("/").pop()}.toml`, this.editor.text));
    byId("seeds").addEventListener("change", () => this.check());
    byId("quick").addEventListener("change", () => {
      // The quick form may have other values.
      this.selection.clear();
      this.sweepKey = "";
      this.check();
    });
    const tabs = ["run", "compare", "runs"];
    for (const [index, name] of tabs.entries()) {
      byId(`tab-${name}`).addEventListener("click", () => this.showTab(name));
      byId(`tab-${name}`).addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(index + step + tabs.length) % tabs.length];
        this.showTab(next);
        byId(`tab-${next}`).focus();
      });
    }
  }

  showTab(name) {
    for (const other of ["run", "compare", "runs"]) {
      const isShown = other === name;
      byId(`tab-${other}`).setAttribute("aria-selected", String(isShown));
      byId(`tab-${other}`).tabIndex = isShown ? 0 : -1;
      byId(`panel-${other}`).hidden = !isShown;
    }
    if (name === "compare") this.loadRuns().then(() => this.comparison.open()).catch((error) => this.note(error));
    if (name === "runs") this.loadRuns().catch((error) => this.note(error));
    this.grid.resize();
  }

  note(error) {
    byId("compare-note").textContent = error.message;
  }

  /** Loads a text into the editor. */
  load(name, text) {
    this.name = name;
    this.loaded = text;
    this.selection.clear();
    this.editor.setText(text);
  }

  /** Keeps the text for a reload of this tab. */
  keepDraft() {
    sessionStorage.setItem("draft", JSON.stringify({ name: this.name, text: this.editor.text, loaded: this.loaded }));
  }

  /** Loads the text that this tab showed before it was reloaded. Returns whether there was one. */
  restoreDraft() {
    const draft = JSON.parse(sessionStorage.getItem("draft") ?? "null");
    if (!draft) return false;
    if (draft.text !== this.first.text) byId("chooser").selectedIndex = -1;
    this.load(draft.name, draft.text);
    this.loaded = draft.loaded;
    if (draft.text !== draft.loaded) {
      this.keepEdited();
      byId("chooser").value = "edited:";
    }
    return true;
  }

  /** Keeps an edited text in the list before another scenario replaces it. */
  keepEdited() {
    if (this.editor.text === this.loaded) return;
    this.edited = { name: this.name, text: this.editor.text };
    const label = `Your edited ${this.name.split("/").pop()}`;
    const known = byId("chooser").querySelector("option[value='edited:']");
    if (known) known.textContent = label;
    else byId("chooser").firstElementChild.append(element("option", { value: "edited:" }, label));
  }

  /** Loads a scenario into the editor. */
  async choose(value) {
    const [kind, name] = [value.slice(0, value.indexOf(":")), value.slice(value.indexOf(":") + 1)];
    const previous = this.edited;
    this.keepEdited();
    byId("seeds").value = "";
    this.showWelcome();
    let text;
    try {
      if (kind === "first") text = this.first.text;
      else if (kind === "edited") return this.load(previous.name, previous.text);
      else if (kind === "new") text = EMPTY_SCENARIO;
      else text = (await request(`/api/scenario?${kind}=${encodeURIComponent(name)}`)).text;
    } catch (error) {
      return this.showProblem({ message: error.message });
    }
    this.load(kind === "first" ? this.first.name : kind === "new" ? "my-scenario" : name.replace(/\.toml$/, ""), text);
  }

  /** Shows the description of the scenario instead of an earlier result. A run in progress stays in view. */
  showWelcome() {
    if (!byId("stop").disabled) return;
    this.abort?.abort();
    this.grid.clear();
    byId("result").replaceChildren();
    byId("status").hidden = true;
    byId("welcome").hidden = false;
  }

  /** Returns what the server needs to check or run the scenario. */
  scenario() {
    const seeds = Number.parseInt(byId("seeds").value, 10);
    const select = {};
    for (const [sweep, values] of this.selection) if (values) select[sweep] = values;
    return { name: this.name, text: this.editor.text, quick: byId("quick").checked, seeds: Number.isFinite(seeds) ? seeds : null, select };
  }

  /** Checks the scenario. A large scenario takes seconds, so changes during a check lead to one further check. */
  async check() {
    this.keepDraft();
    this.needsCheck = true;
    if (this.isChecking) return;
    this.isChecking = true;
    while (this.needsCheck) {
      this.needsCheck = false;
      await this.checkOnce();
    }
    this.isChecking = false;
  }

  async checkOnce() {
    let answer;
    try {
      answer = await request("/api/check", this.scenario());
    } catch (error) {
      answer = { problem: { message: error.message }, sweeps: [] };
    }
    if (this.needsCheck) return;
    if (answer.sweeps.length > 0 || !answer.problem) this.showSweeps(answer.sweeps);
    this.showProblem(answer.problem);
    if (!answer.problem) {
      byId("scenario-title").textContent = answer.title;
      byId("about").textContent = answer.about;
      byId("source").textContent = answer.source;
    }
    byId("estimate").textContent = answer.over_limit ?? describeEstimate(answer);
    byId("run").disabled = Boolean(answer.problem || answer.over_limit);
  }

  showProblem(problem) {
    const box = byId("problem");
    this.editor.setError(problem?.line ?? null);
    if (!problem) return box.replaceChildren();
    const jump = problem.line
      ? element("button", { type: "button", class: "link", on: { click: () => this.editor.goTo(problem.line, problem.column ?? 1) } }, `Line ${problem.line}`)
      : null;
    box.replaceChildren(...[jump, jump ? ": " : null, problem.message, problem.cell ? ` (in the cell ${problem.cell})` : null].filter((part) => part));
  }

  /** Shows a control for each sweep: a slider for numbers, check boxes for other values. */
  showSweeps(sweeps) {
    const key = JSON.stringify(sweeps);
    const names = new Set(sweeps.map((sweep) => sweep.name));
    for (const name of this.selection.keys()) if (!names.has(name)) this.selection.delete(name);
    if (key === this.sweepKey) return;
    this.sweepKey = key;
    for (const { name, values } of sweeps) {
      const known = this.selection.get(name)?.filter((value) => values.includes(value));
      this.selection.set(name, known && known.length > 0 && known.length < values.length ? known : null);
    }
    byId("sweeps").hidden = sweeps.length === 0;
    byId("sweep-list").replaceChildren(...sweeps.map((sweep) => this.sweepControl(sweep)));
  }

  sweepControl({ name, values }) {
    const heading = element("span", { class: "sweep-name" }, `${name} `);
    const scale = numberScale(values);
    const content = scale ? this.slider(name, scale) : this.boxes(name, values);
    return element("div", { class: "sweep", role: "group", "aria-label": `Values of ${name}` }, heading, ...content);
  }

  /** Check boxes, one for each value. */
  boxes(name, values) {
    const chosen = this.selection.get(name) ?? values;
    const boxes = values.map((value) => element("input", { type: "checkbox", value, checked: chosen.includes(value) }));
    for (const box of boxes) {
      box.addEventListener("change", () => {
        const selected = boxes.filter((other) => other.checked).map((other) => other.value);
        if (selected.length === 0) {
          box.checked = true;
          byId("estimate").textContent = `at least one value of ${name} must run`;
          return;
        }
        this.selection.set(name, selected.length < values.length ? selected : null);
        this.check();
      });
    }
    return boxes.map((box) => element("label", {}, box, ` ${box.value}`));
  }

  /** A slider for one number, and a box that selects all values of the scenario instead. */
  slider(name, { numbers, unit, step, format }) {
    const chosen = this.selection.get(name);
    const all = element("input", { type: "checkbox", checked: !chosen });
    const range = element("input", { type: "range", min: numbers[0], max: numbers[numbers.length - 1], step, value: chosen ? Number.parseFloat(chosen[0]) : numbers[0], "aria-label": `One value of ${name}` });
    const output = element("output", {});
    const text = () => format(Number(range.value)) + (unit ? ` ${unit}` : "");
    const list = `${numbers.map(format).join(", ")}${unit ? ` ${unit}` : ""}`;
    const update = () => {
      output.textContent = all.checked ? list : text();
      this.selection.set(name, all.checked ? null : [text()]);
    };
    const recheck = debounce(200, () => this.check());
    range.addEventListener("input", () => { all.checked = false; update(); recheck(); });
    all.addEventListener("change", () => { update(); recheck(); });
    output.textContent = all.checked ? list : text();
    return [element("label", {}, all, " all"), range, " ", output];
  }

  async run() {
    byId("run").disabled = true;
    byId("progress-text").textContent = "starting";
    try {
      const job = await request("/api/runs", { scenario: this.scenario(), on_close: byId("keep-running").checked ? "continue" : "stop" });
      this.showTab("run");
      this.follow(job);
    } catch (error) {
      this.showProblem(error.problem ?? { message: error.message });
      byId("run").disabled = Boolean(error.problem);
    }
  }

  async stop() {
    byId("stop").disabled = true;
    if (this.job) await request(`/api/runs/${this.job.id}/stop`, {}).catch((error) => this.showProblem({ message: error.message }));
  }

  /** Follows the run that was in progress when the page was loaded. */
  async resume() {
    const runs = await this.loadRuns();
    const active = runs.find((run) => run.status === "running") ?? runs.find((run) => run.status === "queued");
    const latest = runs.filter((run) => run.hasResult).sort((a, b) => b.id - a.id)[0];
    if (active) this.follow(active);
    else if (latest) await this.open(latest);
  }

  /** Shows a run while it is in progress, and then its result. */
  async follow(job) {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    this.job = job;
    this.lines = [];
    this.grid.clear();
    byId("result").replaceChildren();
    byId("welcome").hidden = true;
    byId("status").hidden = false;
    byId("run-title").textContent = `Run ${job.id}: ${job.title || job.name}`;
    byId("answer").replaceChildren();
    byId("run-problem").textContent = "";
    byId("progress").value = 0;
    byId("progress-text").textContent = "starting";
    byId("stop").disabled = false;
    let last = null;
    // The server may close the stream before the run ends, for example when the machine sleeps.
    for (let attempt = 0; attempt < 5 && !abort.signal.aborted; attempt += 1) {
      try {
        await readEvents(`/api/runs/${job.id}/events`, abort.signal, (update) => this.onUpdate(update, (last = update)));
      } catch (error) {
        if (abort.signal.aborted) return;
        byId("run-note").textContent = `The connection failed: ${error.message}.`;
      }
      if (last && ["done", "stopped", "failed"].includes(last.status)) break;
      await new Promise((resolve) => setTimeout(resolve, 500));
      this.lines = [];
      this.grid.clear();
    }
    if (abort.signal.aborted) return;
    byId("stop").disabled = true;
    byId("run").disabled = false;
    await this.showResult(job.id);
    this.check();
  }

  onUpdate(update) {
    for (const { index, info } of update.series) {
      const chart = { ...LIVE_CHARTS[info.kind](info), end: info.end_us };
      this.lines[index] = this.grid.addLine(`${info.kind} ${info.of}`, chart, info.cell || "this run", info.law ?? info.cell, info.order);
    }
    for (const [index, [times, values]] of update.points) this.grid.addPoints(this.lines[index], times, values);
    const { share, ended, total, reused, elapsed_s: elapsed, remaining_s: remaining } = update.progress;
    byId("progress").value = update.status === "queued" ? 0 : share;
    const parts = [`${ended} of ${total} runs`];
    if (reused > 0) parts.push(`${reused} from earlier`);
    if (update.status === "running" && remaining !== null) parts.push(`about ${formatSeconds(remaining)} left`);
    if (update.status !== "running" && update.status !== "queued") parts.push(formatSeconds(elapsed));
    byId("progress-text").textContent = `${update.status}: ${parts.join(", ")}`;
    const notes = [...update.warnings];
    if (update.unplotted_cells > 0) notes.push(`${update.unplotted_cells} more cells run without a live plot`);
    byId("run-note").textContent = notes.join("; ");
    byId("run-problem").textContent = update.problem ? (update.problem.line ? `Line ${update.problem.line}: ` : "") + update.problem.message : "";
    if (update.problem?.line) this.showProblem(update.problem);
  }

  async showResult(id) {
    const answer = await request(`/api/runs/${id}`).catch((error) => ({ problem: { message: error.message } }));
    if (answer.problem) byId("run-problem").textContent = answer.problem.message;
    if (answer.result) {
      byId("answer").replaceChildren(...renderAnswer(answer.result));
      renderResult(byId("result"), answer.result, this.lab);
      this.grid.draw();
      if (byId("charts").dataset.points === "0") plotStoredSeries(this.grid, answer.result);
    }
    await this.loadRuns();
  }

  /** Shows the result of a run from the list. */
  async open(run) {
    const path = run.key.startsWith("run:") ? `/api/runs/${run.id}` : `/api/stored?study=${encodeURIComponent(run.study)}`;
    if (["running", "queued"].includes(run.status)) {
      this.showTab("run");
      return this.follow(run);
    }
    this.abort?.abort();
    const answer = await request(path);
    this.grid.clear();
    byId("welcome").hidden = true;
    byId("status").hidden = false;
    byId("run-title").textContent = `${run.id === undefined ? "" : `Run ${run.id}: `}${answer.result?.title ?? run.label}`;
    byId("answer").replaceChildren(...(answer.result ? renderAnswer(answer.result) : []));
    byId("progress").value = 1;
    byId("progress-text").textContent = run.status ?? "stored";
    byId("run-note").textContent = "";
    byId("run-problem").textContent = answer.problem?.message ?? "";
    byId("result").replaceChildren();
    this.showTab("run");
    if (answer.result) {
      renderResult(byId("result"), answer.result, this.lab);
      plotStoredSeries(this.grid, answer.result);
    }
  }

  /** Fetches the list of runs and shows it. Returns the runs of this session. */
  async loadRuns() {
    const { session, stored } = await request("/api/runs");
    const details = (run) => [run.quick ? "quick" : null, `${run.cells} cell${run.cells === 1 ? "" : "s"}`].filter((part) => part).join(", ");
    const own = session.map((run) => ({ ...run, key: `run:${run.id}`, group: "this session", label: `run ${run.id}: ${run.name} (${details(run)})`, hasResult: ["done", "stopped"].includes(run.status) }));
    const others = stored.filter((study) => !session.some((run) => run.study === study))
      .map((study) => ({ study, key: `stored:${study}`, group: "stored", label: study, hasResult: true }));
    const all = [...own, ...others];
    this.comparison.setRuns(all);
    const rows = all.map((run) => [
      run.label, run.status ?? "stored",
      element("button", { type: "button", on: { click: () => this.open(run).catch((error) => this.fail(error.message)) } }, "Open"),
      run.hasResult ? element("button", { type: "button", on: { click: () => this.restore(run) } }, "Edit its text") : "",
    ]);
    byId("runs").replaceChildren(rows.length > 0
      ? buildTable("All runs", ["run", "status", "result", "text"], rows)
      : element("p", {}, "There are no runs yet."));
    return own;
  }

  /** Loads the text of a run into the editor. */
  async restore(run) {
    const result = await this.comparison.fetchResult(run.key).catch(() => null);
    if (!result) return;
    this.keepEdited();
    this.load(run.name ?? result.study.split("/").pop(), result.text);
    this.editor.area.focus();
  }
}

/** Describes what a run costs. */
function describeEstimate({ estimate, omissions }) {
  if (!estimate) return "";
  const plural = estimate.runs === 1 ? "" : "s";
  if (estimate.runs === 0) return `nothing to run${omissions ? `: ${omissions}` : ""}`;
  if (estimate.pending === 0) return `${estimate.runs} run${plural}, nothing to compute: the result shows at once`;
  const time = estimate.seconds === null ? "" : `, about ${formatSeconds(estimate.seconds)}`;
  const stored = estimate.pending < estimate.runs ? `${estimate.pending} of ${estimate.runs} runs to compute` : `${estimate.runs} run${plural}`;
  return `${stored}${time}, ${formatBytes(estimate.memory_bytes)}${omissions ? `; ${omissions}` : ""}`;
}

/** Returns the scale of a slider, if all values are numbers with the same unit. */
function numberScale(values) {
  const parsed = values.map((value) => /^(-?\d+(?:\.\d+)?)(?: ?([A-Za-z%]+))?$/.exec(value));
  if (values.length < 2 || parsed.some((part) => !part)) return null;
  const unit = parsed[0][2] ?? "";
  if (parsed.some((part) => (part[2] ?? "") !== unit)) return null;
  const numbers = parsed.map((part) => Number(part[1])).sort((a, b) => a - b);
  const isWhole = parsed.every((part) => !part[1].includes("."));
  const digits = Math.max(...parsed.map((part) => part[1].split(".")[1]?.length ?? 0));
  const step = isWhole ? 1 : 5 * 10 ** -(digits + 1);
  return { numbers, unit, step, format: (number) => (isWhole ? String(Math.round(number)) : number.toFixed(digits + 1).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ".0")) };
}

const EMPTY_SCENARIO = `title  = "My scenario"
source = "none"
stop   = "5 ms"

[topology]
kind = "poseidon-clos"
racks = 2

[[traffic]]
name = "flows"
kind = "long-flows"
from = "rack0.host[0-3]"
to   = "rack1.host0"

[observe.queues]
queue = "last hop of flows"

[sweep]
law = ["poseidon", "swift"]
`;

new App().start();
