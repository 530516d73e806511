// Plots of time series with uPlot. All plots of a grid share their cursor.

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const CHART_HEIGHT = 190;
/** The dashes of further lines with the same colour. */
const VARIANTS = [null, [9, 4], [3, 3], [12, 4, 3, 4], [6, 2], [1, 3]];

/** The colour and the dashes of each law, as in all figures. */
class Styles {
  constructor(laws) {
    this.laws = laws;
    this.others = new Map();
  }

  /** Returns the style of a name. Names that are not laws take the styles of the last laws. */
  of(name) {
    const law = this.laws.find((style) => style.name === name);
    if (law) return law;
    if (!this.others.has(name)) this.others.set(name, this.others.size);
    return this.laws[(this.laws.length - 1 - (this.others.get(name) % this.laws.length))];
  }

  /** Returns the colour and the dashes of a line. `repetition` counts the lines of the same name in a plot. */
  line(name, repetition) {
    const style = this.of(name);
    const dashes = style.dashes ? style.dashes.split(" ").map((part) => Number(part) * 1.4) : null;
    return { colour: darkScheme.matches ? style.dark : style.colour, dash: repetition === 0 ? dashes : VARIANTS[1 + ((repetition - 1) % (VARIANTS.length - 1))] };
  }
}

/** A grid of plots. */
class ChartGrid {
  constructor(container, syncKey, styles) {
    this.container = container;
    this.syncKey = syncKey;
    this.styles = styles;
    this.charts = new Map();
    this.pending = false;
    this.lineCount = 0;
    new ResizeObserver(() => this.resize()).observe(container);
    darkScheme.addEventListener("change", () => this.rebuild());
  }

  clear() {
    for (const chart of this.charts.values()) chart.plot?.destroy();
    this.charts.clear();
    this.container.replaceChildren();
    this.container.dataset.points = "0";
  }

  /** Adds a line to a plot. The plot appears with its first point. */
  addLine(chartKey, { title, unit, hideZero = false, end = 0 }, label, styleName, order = this.lineCount) {
    this.lineCount += 1;
    if (!this.charts.has(chartKey)) this.charts.set(chartKey, { title, unit, hideZero, end: 0, lines: [], plot: null, figure: null });
    const chart = this.charts.get(chartKey);
    const line = { label, styleName, order, times: [], values: [] };
    chart.lines.push(line);
    chart.lines.sort((a, b) => a.order - b.order);
    // A run that is still in progress does not fill the time axis yet.
    chart.end = Math.max(chart.end, end / 1000);
    chart.isStale = true;
    return line;
  }

  /** Appends points to a line. Times are in microseconds. */
  addPoints(line, times, values) {
    for (const [index, time] of times.entries()) {
      line.times.push(time / 1000);
      line.values.push(values[index]);
    }
    this.schedule();
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  rebuild() {
    for (const chart of this.charts.values()) chart.isStale = true;
    this.schedule();
  }

  draw() {
    let points = 0;
    for (const chart of this.charts.values()) {
      const lines = chart.lines.filter((line) => line.times.length > 0);
      const count = lines.reduce((sum, line) => sum + line.times.length, 0);
      if (count === 0 || (chart.hideZero && lines.every((line) => line.values.every((value) => !value)))) continue;
      points += count;
      if (chart.isStale || !chart.plot || chart.drawn !== lines.length) this.build(chart, lines);
      else chart.plot.setData(joinLines(lines));
      this.describe(chart, lines);
    }
    // A page without plots still counts zero points.
    this.container.dataset.points = String(points);
  }

  build(chart, lines) {
    const style = getComputedStyle(document.documentElement);
    const [text, grid] = ["--muted", "--grid"].map((name) => style.getPropertyValue(name).trim());
    if (!chart.figure) {
      chart.body = element("div");
      chart.description = element("p", { class: "hidden" });
      chart.legend = element("ul", { class: "legend" });
      chart.figure = element("figure", { class: "chart" }, element("figcaption", {}, chart.title), chart.legend, chart.description, chart.body);
      this.container.append(chart.figure);
    }
    chart.plot?.destroy();
    chart.outputs = [];
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 16 };
    const styles = lines.map((line) => {
      const same = chart.lines.filter((other) => other.styleName === line.styleName);
      const style = this.styles.line(line.styleName, same.indexOf(line));
      return line.hasDash ? { ...style, dash: line.dash } : style;
    });
    const options = {
      width: this.width(chart), height: CHART_HEIGHT,
      cursor: { sync: { key: this.syncKey }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(chart.end, high ?? 1)] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) > 0 ? high * 1.05 : 1] } },
      axes: [{ ...axis, label: "time (ms)", size: 32 }, { ...axis, label: chart.unit, size: 46, values: (_, ticks) => ticks.map(formatTick) }],
      legend: { show: false },
      hooks: { setCursor: [(plot) => this.showValues(chart, plot)] },
      series: [{}, ...styles.map(({ colour, dash }) => ({ stroke: colour, width: 1.7, dash: dash ?? undefined, spanGaps: true, points: { show: false } }))],
    };
    chart.plot = new uPlot(options, joinLines(lines), chart.body);
    chart.legend.replaceChildren(...lines.map((line, index) => {
      chart.outputs[index] = element("span", { class: "value" });
      return element("li", {}, lineSample(styles[index]), line.label, chart.outputs[index]);
    }));
    chart.isStale = false;
    chart.drawn = lines.length;
  }

  /** Shows the values at the cursor in the legend. */
  showValues(chart, plot) {
    const index = plot.cursor.idx;
    for (const [line, output] of chart.outputs.entries()) {
      const value = index === null || index === undefined ? null : plot.data[line + 1][index];
      output.textContent = value === null || value === undefined ? "" : ` ${formatNumber(value)}`;
    }
  }

  /** Describes a plot for screen readers. */
  describe(chart, lines) {
    const last = lines.map((line) => `${line.label} ${formatNumber(line.values[line.values.length - 1])}`);
    chart.description.textContent = `In ${chart.unit} over time. Last values: ${last.join(", ")}.`;
  }

  width(chart) {
    return Math.max(200, (chart.body?.clientWidth || this.container.clientWidth || 400) - 2);
  }

  resize() {
    for (const chart of this.charts.values()) {
      const width = chart.plot && this.width(chart);
      if (width && Math.abs(width - chart.plot.width) > 2) chart.plot.setSize({ width, height: CHART_HEIGHT });
    }
  }
}

/** Draws a short piece of a line for a legend. */
function lineSample({ colour, dash }) {
  const namespace = "http://www.w3.org/2000/svg";
  const [image, line] = ["svg", "line"].map((name) => document.createElementNS(namespace, name));
  for (const [name, value] of Object.entries({ width: 30, height: 10, "aria-hidden": "true" })) image.setAttribute(name, value);
  const attributes = { x1: 0, y1: 5, x2: 30, y2: 5, stroke: colour, "stroke-width": 2.2, "stroke-dasharray": dash ? dash.join(" ") : "none" };
  for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
  image.append(line);
  return image;
}

/** Formats a tick of an axis: `400k`. */
function formatTick(value) {
  const size = Math.abs(value ?? 0);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  return size >= 1e4 ? `${Number((value / 1e3).toPrecision(4))}k` : String(value ?? "");
}

/** Joins lines with different times into one table, as uPlot expects it. */
function joinLines(lines) {
  return lines.length === 1 ? [lines[0].times, lines[0].values] : uPlot.join(lines.map((line) => [line.times, line.values]));
}
