// Compares two runs, or two cells of one run: overlaid plots, and a table of differences.

class Comparison {
  constructor(lab, styles) {
    this.lab = lab;
    this.grid = new ChartGrid(byId("compare-charts"), "compare", styles);
    this.results = new Map();
    this.generation = 0;
    this.selects = { a: byId("compare-a"), b: byId("compare-b") };
    this.cells = { a: byId("compare-a-cell"), b: byId("compare-b-cell") };
    for (const side of ["a", "b"]) {
      this.selects[side].addEventListener("change", () => this.chooseRun(side));
      this.cells[side].addEventListener("change", () => this.show());
    }
  }

  /** Lists the runs that can be compared. The newest two are selected first. */
  setRuns(runs) {
    const usable = runs.filter((run) => run.hasResult);
    for (const [side, position] of [["a", 1], ["b", 0]]) {
      const select = this.selects[side];
      const known = select.value;
      const groups = ["this session", "stored"].map((group) => element("optgroup", { label: group },
        ...usable.filter((run) => run.group === group).map((run) => element("option", { value: run.key }, run.label))));
      select.replaceChildren(...groups.filter((group) => group.children.length > 0));
      const isKnown = usable.some((run) => run.key === known) && this.wasChosen;
      const fallback = usable[Math.min(position, usable.length - 1)];
      select.value = isKnown ? known : fallback?.key ?? "";
    }
    this.hasRuns = usable.length > 0;
  }

  /** Opens the comparison with these runs. */
  async open(a, b) {
    if (a) this.selects.a.value = a;
    if (b) this.selects.b.value = b;
    if (!this.hasRuns) {
      byId("compare-note").textContent = "There is nothing to compare yet. Run a scenario first.";
      return;
    }
    await this.loadCells("a");
    await this.loadCells("b");
    await this.show();
  }

  async chooseRun(side) {
    this.wasChosen = true;
    await this.loadCells(side);
    await this.show();
  }

  /** Fetches the result of a run, once. */
  async fetchResult(key) {
    if (!this.results.has(key)) {
      const [kind, id] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
      const path = kind === "run" ? `/api/runs/${id}` : `/api/stored?study=${encodeURIComponent(id)}`;
      this.results.set(key, request(path).then((answer) => answer.result));
      this.results.get(key).catch(() => this.results.delete(key));
    }
    return this.results.get(key);
  }

  async loadCells(side) {
    const result = await this.fetchResult(this.selects[side].value);
    const options = [element("option", { value: "" }, "all cells with the same name"),
      ...result.cells.map((cell) => element("option", { value: cell.name }, cell.name || "the only cell"))];
    const known = this.cells[side].value;
    this.cells[side].replaceChildren(...options);
    if (result.cells.some((cell) => cell.name === known)) this.cells[side].value = known;
  }

  async show() {
    const generation = (this.generation += 1);
    const [first, second] = await Promise.all(["a", "b"].map((side) => this.fetchResult(this.selects[side].value)));
    if (generation !== this.generation) return;
    const pairs = this.pairs(first, second);
    this.grid.clear();
    this.plot(pairs, first, second);
    const rows = pairs.flatMap(([a, b]) => compareCells(first, second, a, b));
    byId("compare-note").textContent = pairs.length === 0
      ? "The two runs have no cell with the same name. Choose a cell on each side."
      : `${pairs.length} pair${pairs.length === 1 ? "" : "s"} of cells. In the plots, A is solid and B is dashed.`;
    byId("compare-table").replaceChildren(...(rows.length > 0
      ? [element("h3", {}, `Differences: ${pairs.length === 1 ? rows[0][0] : "B against A"}`),
        buildTable("Differences between A and B", [...(pairs.length === 1 ? [] : ["cell"]), "of", "metric", "A", "B", "B − A", "B / A"],
          pairs.length === 1 ? rows.map((row) => row.slice(1)) : rows)] : []));
  }

  /** Returns pairs of cell indices: the chosen cells, or all cells with the same name. */
  pairs(first, second) {
    const index = (result, name) => result.cells.findIndex((cell) => cell.name === name);
    const chosen = [this.cells.a.value, this.cells.b.value];
    if (chosen[0] && chosen[1]) return [[index(first, chosen[0]), index(second, chosen[1])]];
    const pairs = first.cells.map((cell, position) => [position, index(second, cell.name)]);
    return pairs.filter(([a, b]) => b >= 0 && (!chosen[0] || first.cells[a].name === chosen[0]) && (!chosen[1] || second.cells[b].name === chosen[1]));
  }

  plot(pairs, first, second) {
    const seen = new Set();
    if (first.analytic || second.analytic) return;
    for (const [a, b] of pairs) {
      for (const [result, cell, side, repetition] of [[first, first.cells[a], "A", 0], [second, second.cells[b], "B", 1]]) {
        const series = result.series[cell.run];
        if (!series || seen.has(side + cell.run)) continue;
        seen.add(side + cell.run);
        for (const name of mainSeries({ [cell.run]: series }).main) {
          const line = this.grid.addLine(name, { title: name, unit: seriesUnit(name) }, `${side}: ${cell.run || "all"}`, cell.law ?? cell.run);
          line.dash = repetition === 0 ? null : [7, 4];
          line.hasDash = true;
          this.grid.addPoints(line, series[name][0], series[name][1]);
        }
      }
    }
  }
}

/** Returns table rows with the main metrics of two cells. */
function compareCells(first, second, a, b) {
  const rows = [];
  const names = [first.cells[a].name, second.cells[b].name];
  const cell = names[0] === names[1] ? names[0] || "all" : `${names[0] || "all"} → ${names[1] || "all"}`;
  for (const entry of first.metrics.filter((metric) => metric.main)) {
    const other = second.metrics.find((metric) => metric.of === entry.of && metric.metric === entry.metric);
    const [left, right] = [entry.values[a], other?.values[b]];
    if (!left || !right) continue;
    const isKnown = Number.isFinite(left.value) && Number.isFinite(right.value);
    const number = (text) => ({ text, class: "number" });
    const difference = isKnown ? right.value - left.value : null;
    const sign = difference > 0 ? "+" : "";
    const ratio = isKnown && left.value !== 0 ? right.value / left.value : null;
    rows.push([cell, entry.of, entry.metric, valueCell(left), valueCell(right),
      number(difference === null ? "" : sign + formatNumber(difference)), number(ratio === null ? "" : formatNumber(ratio))]);
  }
  return rows;
}
