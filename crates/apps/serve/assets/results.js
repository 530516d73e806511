// The result of a run: claims, numbers, figures and files.

/** Returns the address of a file in the results folder. */
function fileUrl(lab, path, isDownload = false) {
  const parts = path.split("/").map(encodeURIComponent).join("/");
  return `/files/${lab.fileKey}/${parts}${isDownload ? "?download=1" : ""}`;
}

/** Shows a result. */
function renderResult(container, result, lab) {
  const parts = [];
  const note = [`${result.runs} run${result.runs === 1 ? "" : "s"}, ${formatSeconds(result.seconds)} of computing`, `result ${result.hash}`];
  if (result.interrupted > 0) note.push(`${result.interrupted} of them stopped early and left out`);
  if (result.omissions) note.push(`quick form: ${result.omissions}`);
  parts.push(element("p", { class: "muted small" }, note.join("; ")));
  if (result.about) parts.push(element("details", {}, element("summary", {}, "About this scenario"), element("p", {}, result.about)));
  if (result.verdicts.length > 0) parts.push(element("h3", { id: "claims" }, "Claims"), renderVerdicts(result.verdicts));
  parts.push(...renderNumbers(result));
  const figures = result.figures.filter((figure) => figure.svg);
  if (figures.length > 0) parts.push(element("h3", {}, "Figures"), element("div", { class: "figures" }, ...figures.map((figure) => renderFigure(figure, lab))));
  parts.push(element("h3", {}, "Files"), ...renderFiles(result, lab));
  container.replaceChildren(...parts);
}

/** Says in one sentence how many claims hold, and links to them. */
function renderAnswer(result) {
  const { verdicts } = result;
  if (verdicts.length === 0) return [];
  const count = (outcome) => verdicts.filter((verdict) => verdict.outcome === outcome).length;
  const others = ["fails", "not comparable", "not run"].filter((outcome) => count(outcome) > 0).map((outcome) => `${count(outcome)}: ${outcome}`);
  const text = others.length === 0
    ? `${verdicts.length === 1 ? "The claim holds" : `All ${verdicts.length} claims hold`}: ${verdicts[0].claim} (${verdicts[0].metric} ${verdicts[0].measured}). `
    : `${count("holds")} of ${verdicts.length} claims hold (${others.join(", ")}). `;
  return [element("b", {}, text), element("a", { href: "#claims" }, "All claims and numbers")];
}

/** Colours an outcome; the word says the same. */
function outcomeCell(outcome) {
  return element("span", { class: `outcome ${outcome.replace(" ", "-")}` }, outcome);
}

function renderVerdicts(verdicts) {
  const rows = verdicts.map((verdict) => [
    verdict.claim, verdict.paper, verdict.metric, verdict.condition, verdict.measured,
    element("span", {}, outcomeCell(verdict.outcome), verdict.note ? element("span", { class: "muted small" }, ` ${verdict.note}`) : null),
  ]);
  return buildTable("Claims and verdicts", ["claim", "the paper", "metric", "condition", "measured", "verdict"], rows);
}

/** Formats the value of a metric in a cell. */
function valueCell(value) {
  if (!value) return { text: "", class: "number" };
  if (value.value === undefined) return { text: value.text, class: "reason" };
  // An interval that the digits of the value do not show is left out.
  const interval = value.half > Math.abs(value.value) * 1e-3 ? ` ± ${value.half_text}` : "";
  return { text: value.text + interval, class: "number", title: String(value.value) };
}

/** Builds one table per traffic pattern or queue: a row per cell, a column per metric. */
function renderNumbers(result) {
  const build = (isMain) => {
    const owners = [...new Set(result.metrics.filter((entry) => entry.main === isMain).map((entry) => entry.of))];
    return owners.map((owner) => {
      const entries = result.metrics.filter((entry) => entry.main === isMain && entry.of === owner && entry.values.some((value) => value));
      if (entries.length === 0) return null;
      const isWide = entries.length > 8;
      const heading = (entry) => element("span", { title: entry.description }, entry.metric);
      const rows = isWide
        ? entries.map((entry) => [heading(entry), ...entry.values.map(valueCell)])
        : result.cells.map((cell, index) => [cell.name || "all", ...entries.map((entry) => valueCell(entry.values[index]))])
          .filter((row) => row.slice(1).some((cell) => cell.text));
      const header = isWide ? ["metric", ...result.cells.map((cell) => cell.name || "all")] : ["cell", ...entries.map(heading)];
      return element("div", {}, element("h4", { class: "small" }, owner), buildTable(`Metrics of ${owner}`, header, rows));
    }).filter((part) => part);
  };
  const [main, others] = [build(true), build(false)];
  const counters = result.counters.map((row) => [row.cell || "all", ...[row.seeds, row.decisions, row.drops, row.timeouts, row.marks, row.packet_hops].map((number) => ({ text: String(number), class: "number" }))]);
  return [
    element("h3", {}, "Numbers"),
    element("p", { class: "muted small" }, "Means over seeds with 95 % intervals; percentiles over the messages of all seeds."),
    ...main,
    ...(others.length > 0 ? [element("details", {}, element("summary", {}, "All other metrics (means over seeds)"), ...others)] : []),
    element("details", {}, element("summary", {}, "Counters"), buildTable("Counters", ["cell", "seeds", "decisions", "drops", "timeouts", "marks", "packet-hops"], counters)),
  ];
}

function renderFigure(figure, lab) {
  const links = [element("a", { href: fileUrl(lab, figure.svg, true) }, "SVG")];
  if (figure.csv) links.push(" ", element("a", { href: fileUrl(lab, figure.csv, true) }, "CSV"));
  return element("figure", {}, element("img", { src: fileUrl(lab, figure.svg), alt: `Figure: ${figure.title}. The CSV file has its numbers.` }),
    element("figcaption", { class: "small" }, `${figure.title} `, ...links));
}

/** Links the report, the maps, the archive and every file. */
function renderFiles(result, lab) {
  const prefix = `${result.study}/`;
  const name = (file) => (file.path.startsWith(prefix) ? file.path.slice(prefix.length) : file.path);
  const link = (file, text, isDownload) => element("a", { href: fileUrl(lab, file.path, isDownload), target: isDownload ? null : "_blank", rel: "noreferrer" }, text);
  const pages = result.files.filter((file) => file.path.endsWith(".html"));
  const total = result.files.reduce((sum, file) => sum + file.bytes, 0);
  const archive = `/zip/${lab.fileKey}/${result.study.split("/").map(encodeURIComponent).join("/")}`;
  const row = element("div", { class: "row" },
    element("a", { href: archive }, `Download everything (zip, ${formatBytes(total)})`),
    ...pages.map((file) => link(file, name(file) === "report.html" ? "Open the report" : `Open ${name(file)}`, false)));
  const list = result.files.map((file) => element("li", {}, link(file, name(file), true), ` ${formatBytes(file.bytes)}`));
  return [row, element("p", { class: "muted small" }, `Stored in ${lab.output}/${result.study}.`),
    element("details", {}, element("summary", {}, `${list.length} files`), element("ul", { class: "files" }, ...list))];
}

/** The series that a plot shows, by the end of their names. */
const SERIES_UNITS = [
  ["rate_gbps", "Gbps"], ["total_gbps", "Gbps"], ["sent_gbps", "Gbps"], ["delay_us", "μs"], ["waiting_bytes", "bytes"],
  ["window_packets", "packets"], ["srtt_us", "μs"], ["jain", "index"],
];

/** Returns the unit of a series over time, or undefined for other series. */
function seriesUnit(name) {
  return SERIES_UNITS.find(([end]) => name.endsWith(`.${end}`))?.[1];
}

/** Returns the names of the series that are plotted first. */
function mainSeries(series) {
  const names = [...new Set(Object.values(series).flatMap((cell) => Object.keys(cell)))].filter((name) => seriesUnit(name));
  const isMain = (name) => !name.includes("[") && /\.(rate_gbps|delay_us|waiting_bytes)$/.test(name);
  const main = ["rate_gbps", "delay_us", "waiting_bytes"].flatMap((end) => names.filter((name) => isMain(name) && name.endsWith(end)));
  return { main: main.length > 0 ? main : names.slice(0, 4), all: names };
}

/** Plots the stored series of a result. Used if there was nothing to watch, because all runs were stored. */
function plotStoredSeries(grid, result) {
  // The series of a closed form are not functions of time. The figures show them.
  if (result.analytic) return;
  for (const name of mainSeries(result.series).main) {
    for (const [cell, series] of Object.entries(result.series)) {
      if (!series[name]) continue;
      const law = result.cells.find((entry) => entry.run === cell)?.law ?? cell;
      const line = grid.addLine(name, { title: name, unit: seriesUnit(name) }, cell || "all", law);
      grid.addPoints(line, series[name][0], series[name][1]);
    }
  }
}
