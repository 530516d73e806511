// The data of charts, and their export as CSV, SVG and tables.

const SVG = "http://www.w3.org/2000/svg";

/** Decodes the data of the page: base64, then deflate, then JSON. */
async function loadData() {
  const element = document.getElementById("report-data");
  if (!element) return { figures: {}, scenarios: {}, dark: {} };
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

const toNumber = (value) => (value === "not-reached" ? Infinity : (value ?? NaN));

/** Returns a chart with its numbers in columns. */
function parseChart(chart) {
  const [kind, marks] = Object.entries(chart.marks)[0];
  const base = { title: chart.title, x: chart.x, y: chart.y, notes: chart.notes ?? [], kind };
  if (kind === "Bars") {
    const series = marks.series.map((bars) => ({
      name: bars.name,
      isReference: false,
      ys: bars.values.map(toNumber),
      halves: (bars.half ?? []).map(toNumber),
    }));
    return { ...base, groups: marks.groups, series };
  }
  const series = marks.map((line) => {
    const flat = line.points.map(toNumber);
    return {
      name: line.name,
      isReference: line.is_reference === true,
      xs: flat.filter((_, index) => index % 2 === 0),
      ys: flat.filter((_, index) => index % 2 === 1),
      halves: (line.half ?? []).map(toNumber),
    };
  });
  return { ...base, series };
}

/** Formats a value with four significant digits. */
function formatValue(value) {
  if (value === Infinity) return "not reached";
  if (!Number.isFinite(value)) return "no value";
  return Number(value.toPrecision(4)).toString();
}

function formatWithInterval(value, half) {
  const text = formatValue(value);
  return half > 0 && Number.isFinite(value) ? `${text} ± ${Number(half.toPrecision(2))}` : text;
}

const csvField = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvNumber = (value) => (Number.isNaN(value) || value === undefined ? "" : value === Infinity ? "inf" : String(value));

/** Returns the rows of a figure: one per value. */
function tableRows(charts) {
  const rows = [["panel", "chart", "x_axis", "y_axis", "series", "group", "x", "y", "half_interval"]];
  charts.forEach((chart, panel) => {
    for (const series of chart.series) {
      series.ys.forEach((y, index) => {
        rows.push([
          String(panel + 1),
          chart.title,
          chart.x.label,
          chart.y.label,
          series.name,
          chart.groups ? chart.groups[index] : "",
          chart.groups ? "" : csvNumber(series.xs[index]),
          csvNumber(y),
          csvNumber(series.halves[index]),
        ]);
      });
    }
  });
  return rows;
}

function toCsv(charts) {
  return tableRows(charts)
    .map((row) => row.map(csvField).join(","))
    .join("\n")
    .concat("\n");
}

/** Offers a text as a file. */
function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Creates an element with attributes and children. Text is never parsed as HTML. */
function create(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function createSvg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The most rows that a table shows. The CSV file has all rows. */
const MAX_TABLE_ROWS = 1000;

/** Returns the data of a figure as a table for readers. */
function dataTable(charts) {
  const rows = tableRows(charts);
  const used = rows[0].map((_, column) => rows.slice(1).some((row) => row[column] !== ""));
  const isShown = (column) => used[column] && !(column === 0 && charts.length === 1);
  const cells = (row, name) => row.filter((_, column) => isShown(column)).map((text) => create(name, name === "th" ? { scope: "col" } : {}, text));
  const table = create("table", {}, create("thead", {}, create("tr", {}, ...cells(rows[0], "th"))));
  table.append(create("tbody", {}, ...rows.slice(1, MAX_TABLE_ROWS + 1).map((row) => create("tr", {}, ...cells(row, "td")))));
  const box = create("div", { class: "scroll data-table", tabindex: "0", role: "region", "aria-label": "Data of the figure" }, table);
  if (rows.length > MAX_TABLE_ROWS + 1) {
    box.append(create("p", {}, `The table shows ${MAX_TABLE_ROWS} of ${rows.length - 1} rows. The CSV file has all of them.`));
  }
  return box;
}

/** Returns the visible part of interactive plots as SVG. Panels are stacked. */
function viewToSvg(panels, appearance) {
  const [width, height, left, right, top, bottom] = [720, 300, 64, 16, 56, 46];
  const root = createSvg("svg", {
    xmlns: SVG,
    viewBox: `0 0 ${width} ${height * panels.length}`,
    "font-family": "Helvetica, Arial, sans-serif",
    "font-size": "12",
    fill: "#222222",
  });
  root.append(createSvg("rect", { width, height: height * panels.length, fill: "#ffffff" }));
  panels.forEach(({ plot, chart }, index) => {
    const [x, y] = [plot.scales.x, plot.scales.y];
    const group = createSvg("g", { transform: `translate(0 ${index * height})` });
    const scale = (value, { min, max, distr }, from, to) => {
      const convert = distr === 3 ? Math.log10 : (number) => number;
      return from + ((convert(value) - convert(min)) / (convert(max) - convert(min))) * (to - from);
    };
    const toX = (value) => scale(value, x, left, width - right);
    const toY = (value) => scale(value, y, height - bottom, top);
    group.append(createSvg("text", { x: left, y: 16, "font-weight": "bold" }, chart.title));
    axisTicks(plot.axes[0]).forEach(([value, text]) => {
      group.append(createSvg("line", { x1: toX(value), x2: toX(value), y1: top, y2: height - bottom, stroke: "#dddddd" }));
      group.append(createSvg("text", { x: toX(value), y: height - bottom + 16, "text-anchor": "middle" }, text));
    });
    axisTicks(plot.axes[1]).forEach(([value, text]) => {
      group.append(createSvg("line", { x1: left, x2: width - right, y1: toY(value), y2: toY(value), stroke: "#dddddd" }));
      group.append(createSvg("text", { x: left - 6, y: toY(value) + 4, "text-anchor": "end" }, text));
    });
    group.append(createSvg("text", { x: (left + width - right) / 2, y: height - 10, "text-anchor": "middle" }, chart.x.label));
    const middle = (top + height - bottom) / 2;
    group.append(createSvg("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, chart.y.label));
    const clip = createSvg("clipPath", { id: `clip-${index}` }, createSvg("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }));
    group.append(clip);
    let legendX = left;
    chart.series.forEach((series, number) => {
      if (!plot.series[number + 1].show) return;
      const style = appearance(series);
      const line = { fill: "none", stroke: style.colour, "stroke-width": series.isReference ? 1 : 1.6 };
      if (style.dashes) line["stroke-dasharray"] = style.dashes;
      group.append(createSvg("path", { d: linePath(plot.data[0], plot.data[number + 1], toX, toY), "clip-path": `url(#clip-${index})`, ...line }));
      group.append(createSvg("path", { d: `M${legendX} 34h22`, ...line }), createSvg("text", { x: legendX + 26, y: 38 }, series.name));
      legendX += 44 + 7 * series.name.length;
    });
    group.append(createSvg("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom, fill: "none", stroke: "#222222" }));
    root.append(group);
  });
  return new XMLSerializer().serializeToString(root);
}

/** Returns the values and labels of an axis, as uPlot draws them. */
function axisTicks(axis) {
  const labels = axis._values ?? [];
  return (axis._splits ?? []).map((value, index) => [value, labels[index]]).filter(([, text]) => text != null && text !== "");
}

/** Returns the path of a line. A null is a gap; undefined means that another line has this x value. */
function linePath(xs, ys, toX, toY) {
  let path = "";
  let isOpen = false;
  for (let index = 0; index < xs.length; index += 1) {
    const y = ys[index];
    if (y === undefined) continue;
    if (y === null) {
      isOpen = false;
      continue;
    }
    path += `${isOpen ? "L" : "M"}${toX(xs[index]).toFixed(1)} ${toY(y).toFixed(1)}`;
    isOpen = true;
  }
  return path;
}
