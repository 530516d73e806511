// Interactive figures: values under the pointer for every figure, and zoom for time series.

const isDark = matchMedia("(prefers-color-scheme: dark)");

/** Shows values beside the pointer or the keyboard cursor. */
class Tip {
  constructor(box) {
    this.element = create("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.live = create("div", { class: "hidden", "aria-live": "polite" });
    box.append(this.element, this.live);
    this.box = box;
  }

  /** Shows a stop at a position in the box. */
  show(stop, left, top) {
    const rows = stop.rows.map((row) =>
      create("tr", row.isMain ? { class: "main" } : {}, create("td", {}, sample(row.style)), create("td", {}, row.name), create("td", {}, row.value)),
    );
    this.element.replaceChildren(create("b", {}, stop.title), create("table", {}, create("tbody", {}, ...rows)));
    this.element.hidden = false;
    const width = this.element.offsetWidth;
    const isRight = left + 14 + width < this.box.clientWidth;
    const x = isRight ? left + 14 : Math.max(0, left - 14 - width);
    this.element.style.left = `${x}px`;
    this.element.style.top = `${Math.max(0, Math.min(top, this.box.clientHeight - this.element.offsetHeight))}px`;
  }

  /** Tells a screen reader about a stop. */
  announce(stop) {
    this.live.textContent = `${stop.title}: ${stop.rows.map((row) => `${row.name} ${row.value}`).join(", ")}`;
  }

  hide() {
    this.element.hidden = true;
  }
}

/** Draws a sample of a line. */
function sample(style) {
  const line = createSvg("line", { x1: 0, x2: 24, y1: 5, y2: 5, stroke: style.screenColour, "stroke-width": style.isReference ? 1.5 : 2.5 });
  if (style.dashes) line.setAttribute("stroke-dasharray", style.dashes);
  return createSvg("svg", { width: 24, height: 10, "aria-hidden": "true" }, line);
}

/** Returns a function that looks up how a series is drawn. */
function appearanceOf(figure, dark) {
  return (series) => {
    const known = figure.description.series.find((style) => style.name === series.name && style.is_reference === series.isReference);
    const colour = known?.colour ?? "#777777";
    return { colour, dashes: known?.dashes ?? "", isReference: series.isReference, screenColour: isDark.matches ? (dark[colour] ?? colour) : colour };
  };
}

const SCALES = { Linear: (value) => value, Log: Math.log10, Tail: (value) => -Math.log10(1 - value) };

/** Returns the position of a value between two ends of an axis. */
function positionOf(value, scale, [low, high], [from, to]) {
  const convert = SCALES[scale];
  return from + ((convert(value) - convert(low)) / (convert(high) - convert(low))) * (to - from);
}

/** Returns the places in a panel at which values are shown, with their position in SVG units. */
function stopsOf(chart, panel, style) {
  const [left, , right] = panel.frame;
  const toX = (value) => positionOf(value, chart.x.scale, panel.x, [left, right]);
  const toY = (value) => positionOf(value, chart.y.scale, panel.y, panel.y_positions);
  const unit = chart.y.label ? ` (${chart.y.label})` : "";
  if (chart.kind === "Bars") {
    return chart.groups.map((group, index) => ({
      x: left + (index + 0.5) * panel.bars[0],
      title: `${group || chart.title}${unit}`,
      rows: chart.series.map((series) => ({
        name: series.name,
        value: formatWithInterval(series.ys[index], series.halves[index]),
        style: style(series),
      })),
    }));
  }
  const points = chart.series.flatMap((series) => series.xs.map((x, index) => ({ series, x, y: series.ys[index], half: series.halves[index] })));
  const visible = points.filter(({ x, y }) => Number.isFinite(toX(x)) && (y === Infinity || Number.isFinite(toY(y))));
  if (chart.y.scale === "Tail") return shareStops(chart, visible, toY, style);
  if (chart.kind === "Points" || isPathChart(chart)) {
    return visible
      .filter(({ y }) => Number.isFinite(y))
      .map(({ series, x, y, half }) => ({
        x: toX(x),
        y: toY(y),
        title: `${chart.x.label} ${formatValue(x)}`,
        rows: [{ name: series.name, value: `${formatWithInterval(y, half)} ${chart.y.label}`, style: style(series) }],
      }));
  }
  const byX = new Map();
  for (const point of visible) byX.set(point.x, [...(byX.get(point.x) ?? []), point]);
  return [...byX.keys()]
    .sort((a, b) => a - b)
    .map((x) => ({
      x: toX(x),
      title: `${chart.x.label} ${formatValue(x)}${unit}`,
      rows: byX.get(x).map(({ series, y, half }) => ({ name: series.name, value: formatWithInterval(y, half), style: style(series) })),
    }));
}

/** Returns the stops of distributions: the value of each series at a share of the samples. */
function shareStops(chart, points, toY, style) {
  const shares = [...new Set(points.map(({ y }) => y))].filter(Number.isFinite).sort((a, b) => a - b);
  return shares.map((share) => ({
    y: toY(share),
    title: `share ${Number(share.toPrecision(5))} (${chart.x.label})`,
    rows: chart.series.map((series) => {
      const index = series.ys.findIndex((y) => y >= share);
      return { name: series.name, value: formatValue(index < 0 ? Infinity : series.xs[index]), style: style(series) };
    }),
  }));
}

/** Returns whether lines run in both directions, as in phase plots. */
const isPathChart = (chart) => chart.series.some(({ xs }) => xs.some((x, index) => index > 0 && x < xs[index - 1]));

/** Shows the values of a static figure. */
class StaticPlot {
  constructor(box, charts, figure, style) {
    this.box = box;
    this.svg = box.querySelector("svg");
    this.tip = new Tip(box);
    this.cross = create("div", { class: "cross", hidden: "" });
    box.append(this.cross);
    this.size = figure.description.size;
    this.panels = charts.flatMap((chart, index) => {
      const panel = figure.description.panels[index];
      return panel ? [{ frame: panel.frame, stops: stopsOf(chart, panel, style), groupWidth: panel.bars?.[0] }] : [];
    });
    this.stops = this.panels.flatMap((panel) => panel.stops.map((stop) => ({ stop, panel })));
    this.current = -1;
    box.addEventListener("pointermove", (event) => this.onPointer(event));
    box.addEventListener("pointerleave", () => this.hide());
    box.addEventListener("blur", () => this.hide());
    box.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Returns the ratio of pixels to SVG units. */
  scale() {
    return this.svg.getBoundingClientRect().width / this.size[0];
  }

  onPointer(event) {
    const bounds = this.svg.getBoundingClientRect();
    const [x, y] = [(event.clientX - bounds.left) / this.scale(), (event.clientY - bounds.top) / this.scale()];
    const panel = this.panels.find(({ frame: [left, top, right, bottom] }) => x >= left - 4 && x <= right + 4 && y >= top - 4 && y <= bottom + 4);
    if (!panel || panel.stops.length === 0) return this.hide();
    const distance = (stop) => Math.hypot(stop.x === undefined ? 0 : stop.x - x, stop.y === undefined ? 0 : stop.y - y);
    const nearest = panel.stops.reduce((best, stop) => (distance(stop) < distance(best) ? stop : best));
    this.current = this.stops.findIndex(({ stop }) => stop === nearest);
    this.show(nearest, panel, y);
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") return this.hide();
    if (!step || this.stops.length === 0) return;
    event.preventDefault();
    this.current = (this.current + step + this.stops.length) % this.stops.length;
    const { stop, panel } = this.stops[this.current];
    this.show(stop, panel, stop.y ?? (panel.frame[1] + panel.frame[3]) / 2);
    this.tip.announce(stop);
  }

  show(stop, panel, pointerY) {
    const scale = this.scale();
    const [left, top, right, bottom] = panel.frame.map((value) => value * scale);
    const style = this.cross.style;
    this.cross.hidden = false;
    const width = (panel.groupWidth ?? 0) * scale;
    if (stop.x !== undefined) {
      Object.assign(style, { left: `${stop.x * scale - width / 2}px`, top: `${top}px`, width: `${width || 1}px`, height: `${bottom - top}px` });
    } else {
      Object.assign(style, { left: `${left}px`, top: `${stop.y * scale}px`, width: `${right - left}px`, height: "1px" });
    }
    this.cross.classList.toggle("band", width > 0);
    this.tip.show(stop, stop.x === undefined ? left + 20 : stop.x * scale, pointerY * scale + 12);
  }

  hide() {
    this.tip.hide();
    this.cross.hidden = true;
  }
}

/** The plots that share a cursor and a zoom, by study and x axis. */
const groups = new Map();

/** Returns the data of a chart for uPlot: one x column and one column per series. */
function alignedData(chart) {
  const isLog = chart.y.scale === "Log";
  const tables = chart.series.map(({ xs, ys }) => {
    const span = xs.length > 1 ? xs[xs.length - 1] - xs[0] : 1;
    const columns = [[], []];
    xs.forEach((x, index) => {
      const last = columns[0].at(-1);
      // A step has two values at one x. The second is moved by less than a pixel.
      columns[0].push(last !== undefined && x <= last ? last + span * 1e-7 : x);
      const y = ys[index];
      columns[1].push(Number.isFinite(y) && !(isLog && y <= 0) ? y : null);
    });
    return columns;
  });
  return uPlot.join(tables);
}

/** Returns the x range of all interactive figures of a study with the same x axis. They share their zoom. */
function commonRange(figures, label) {
  const panels = figures.filter((figure) => figure.live && figure.charts[0].x.label === label).flatMap((figure) => figure.description.panels);
  const ends = panels.filter(Boolean).map((panel) => panel.x);
  return ends.length ? [Math.min(...ends.map((end) => end[0])), Math.max(...ends.map((end) => end[1]))] : [0, 1];
}

/** Returns the ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or fewer if the axis is long. */
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const ticks = [];
  for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.log10(high); exponent += Math.ceil(decades / 8)) {
    for (const digit of decades < 3 ? [1, 2, 5] : [1]) ticks.push(digit * 10 ** exponent);
  }
  return ticks.filter((value) => value >= low && value <= high);
}

/** Formats the labels of an axis: 1500000 becomes 1.5M. */
function formatTicks(values, isLog = false) {
  if (isLog) return values.map((value) => formatTicks([value])[0]);
  const largest = Math.max(...values.map((value) => Math.abs(value ?? 0)));
  const [unit, suffix] = [[1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([unit]) => largest >= unit) ?? [1, ""];
  const divisor = suffix === "k" ? 1e3 : unit;
  return values.map((value) => (value == null ? "" : value === 0 ? "0" : `${Number((value / divisor).toPrecision(6))}${suffix}`));
}

/** Shows the charts of a figure as time series with a common cursor and zoom. */
class LivePlot {
  constructor(box, charts, style, key, full) {
    [this.box, this.charts, this.style, this.key, this.full] = [box, charts, style, key, full];
    // The plots take the place of the figure, so that the page does not move. The rest is for titles and legend.
    this.height = Math.max(170, box.querySelector("svg").getBoundingClientRect().height / charts.length - 70);
    this.view = create("div", { class: "live-view" });
    box.append(this.view);
    box.classList.add("live");
    this.legend = this.createLegend();
    this.panels = charts.map((chart) => this.createPanel(chart));
    this.view.append(this.legend);
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(this.view);
    box.addEventListener("keydown", (this.onKeyDown = (event) => this.onKey(event)));
  }

  createPanel(chart) {
    const holder = create("div", { class: "live-panel" });
    this.view.append(create("p", { class: "panel-title" }, chart.title, chart.notes.length ? create("small", {}, ` ${chart.notes.join("; ")}`) : ""), holder);
    const data = alignedData(chart);
    const isLog = chart.y.scale === "Log";
    const colours = getComputedStyle(document.documentElement);
    const [text, grid] = [colours.getPropertyValue("--text"), colours.getPropertyValue("--line")];
    const axis = (label, isLog = false) => ({ label, stroke: text, font: "12px system-ui", labelFont: "12px system-ui", labelSize: 20, values: (_, ticks) => formatTicks(ticks, isLog), grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } });
    const panel = { chart, holder };
    const yRange = (_, low, high) => {
      if (low == null || high == null) return isLog ? [1, 10] : [0, 1];
      return isLog ? [low / 1.2, high * 1.2] : [Math.min(low, 0) * 1.05, high > 0 ? high * 1.05 : 1];
    };
    const options = {
      width: Math.max(this.view.clientWidth, 240),
      height: this.height,
      legend: { show: false },
      cursor: { sync: { key: this.key }, drag: { x: true, y: false }, focus: { prox: 30 }, points: { size: 7 }, bind: { dblclick: () => () => this.resetZoom() } },
      focus: { alpha: 0.35 },
      scales: { x: { time: false, min: this.full[0], max: this.full[1], range: (_, low, high) => [low, high] }, y: { distr: isLog ? 3 : 1, range: yRange } },
      axes: [{ ...axis(chart.x.label), size: 34 }, { ...axis(chart.y.label, isLog), size: 56, ...(isLog && { splits: (_plot, _axis, low, high) => logTicks(low, high), filter: (_, ticks) => ticks }) }],
      series: [{}, ...chart.series.map((series) => this.createSeries(series))],
      hooks: { setCursor: [(plot) => this.onCursor(plot, panel)], setScale: [(plot, name) => name === "x" && this.onZoom(plot)] },
    };
    panel.plot = new uPlot(options, data, holder);
    panel.tip = new Tip(panel.plot.over);
    for (const canvas of holder.querySelectorAll("canvas")) canvas.setAttribute("aria-hidden", "true");
    if (!groups.has(this.key)) groups.set(this.key, new Set());
    groups.get(this.key).add(panel);
    return panel;
  }

  createSeries(series) {
    const style = this.style(series);
    return {
      label: series.name,
      stroke: style.screenColour,
      width: series.isReference ? 1 : 1.6,
      dash: style.dashes ? style.dashes.split(" ").map(Number) : undefined,
      // Few points are marked, because a line through them says little.
      points: { show: !series.isReference && series.xs.length <= 40, size: 5, fill: style.screenColour },
    };
  }

  /** Creates buttons that hide and show series. */
  createLegend() {
    const list = create("ul", { class: "legend", "aria-label": "Series" });
    const names = new Map(this.charts.flatMap((chart) => chart.series.map((series) => [series.name, series])));
    for (const [name, series] of names) {
      const button = create("button", { type: "button", "aria-pressed": "true" }, sample(this.style(series)), ` ${name}`);
      button.addEventListener("click", () => {
        const isShown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(isShown));
        for (const { chart, plot } of this.panels) {
          chart.series.forEach((other, index) => other.name === name && plot.setSeries(index + 1, { show: isShown }));
        }
      });
      list.append(create("li", {}, button));
    }
    return list;
  }

  onCursor(plot, panel) {
    const { idx, left, top } = plot.cursor;
    if (!panel.tip) return;
    if (idx == null || left < 0) return panel.tip.hide();
    panel.stop = this.stopAt(plot, panel.chart, idx);
    // A long list would hide the other plots.
    const isElsewhere = !plot.over.matches(":hover") && document.activeElement !== this.box;
    if (isElsewhere && panel.stop.rows.length > 6) return panel.tip.hide();
    panel.tip.show(panel.stop, left, Math.max(0, top - 20));
  }

  /** Returns the values of all visible series near an index. */
  stopAt(plot, chart, index) {
    const xs = plot.data[0];
    const nearest = (ys) => {
      for (let distance = 0; distance < xs.length; distance += 1) {
        for (const at of [index - distance, index + distance]) if (ys[at] != null) return ys[at];
      }
      return NaN;
    };
    const rows = chart.series.flatMap((series, number) =>
      plot.series[number + 1].show ? [{ name: series.name, value: formatValue(nearest(plot.data[number + 1])), style: this.style(series) }] : [],
    );
    return { title: `${formatValue(xs[index])} ${chart.x.label}${chart.y.label ? `, ${chart.y.label}` : ""}`, rows };
  }

  /** Gives all plots of the group the same zoom. */
  onZoom(plot) {
    const { min, max } = plot.scales.x;
    for (const { plot: other } of groups.get(this.key) ?? []) {
      if (other && other !== plot && (other.scales.x.min !== min || other.scales.x.max !== max)) other.setScale("x", { min, max });
    }
    this.box.closest("figure")?.querySelector(".zoom-reset")?.toggleAttribute("disabled", !this.isZoomed());
  }

  isZoomed() {
    return (this.panels ?? []).some(({ plot }) => plot && (plot.scales.x.min > this.full[0] || plot.scales.x.max < this.full[1]));
  }

  /** Zooms around the middle of the view. A factor below one enlarges the data. */
  zoom(factor, shift = 0) {
    const [first] = this.panels;
    const { min, max } = first.plot.scales.x;
    const [half, middle] = [((max - min) / 2) * factor, (min + max) / 2 + shift * (max - min)];
    const [low, high] = [Math.max(this.full[0], middle - half), Math.min(this.full[1], middle + half)];
    if (high - low > (this.full[1] - this.full[0]) * 1e-5) first.plot.setScale("x", { min: low, max: high });
  }

  resetZoom() {
    this.panels[0].plot.setScale("x", { min: this.full[0], max: this.full[1] });
  }

  onKey(event) {
    const actions = {
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.resetZoom(),
      ArrowLeft: () => (event.shiftKey ? this.zoom(1, -0.25) : this.moveCursor(-1)),
      ArrowRight: () => (event.shiftKey ? this.zoom(1, 0.25) : this.moveCursor(1)),
      Escape: () => this.panels.forEach(({ tip }) => tip.hide()),
    };
    const action = event.ctrlKey || event.metaKey || event.target !== this.box ? undefined : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** Moves the cursor by a hundredth of the view. */
  moveCursor(direction) {
    const [panel] = this.panels;
    const { plot } = panel;
    const width = plot.over.clientWidth;
    const from = plot.cursor.left >= 0 ? plot.cursor.left : width / 2;
    const left = Math.min(width - 1, Math.max(0, from + (direction * width) / 100));
    plot.setCursor({ left, top: plot.over.clientHeight / 2 });
    if (panel.stop) panel.tip.announce(panel.stop);
  }

  resize() {
    const width = this.view.clientWidth;
    for (const { plot } of this.panels) if (width > 0 && plot.width !== width) plot.setSize({ width, height: plot.height });
  }

  destroy() {
    this.resizer.disconnect();
    this.box.removeEventListener("keydown", this.onKeyDown);
    for (const panel of this.panels) {
      groups.get(this.key)?.delete(panel);
      panel.plot.destroy();
    }
    this.view.remove();
  }
}
