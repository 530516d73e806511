// Sets up the page: filters at once, figures when they come into view.

/** Prints one figure. The print dialog can save it as PDF. */
function printFigure(svg) {
  const root = create("div", { id: "print-root" }, svg.cloneNode(true));
  document.body.append(root);
  document.body.classList.add("print-one");
  addEventListener(
    "afterprint",
    () => {
      root.remove();
      document.body.classList.remove("print-one");
    },
    { once: true },
  );
  print();
}

/** Adds the buttons below a figure. */
function addTools(figure, name, charts, state) {
  const tools = figure.querySelector(".tools");
  const button = (text, label, action, attributes = {}) => {
    const element = create("button", { type: "button", "aria-label": label, title: label, ...attributes }, text);
    element.addEventListener("click", () => action(element));
    tools.append(element);
    return element;
  };
  if (state.live) {
    button("+", "Zoom in", () => state.live.zoom(0.5));
    button("−", "Zoom out", () => state.live.zoom(2));
    button("Reset", "Reset the zoom", () => state.live.resetZoom(), { class: "zoom-reset", disabled: "" });
  }
  const svg = figure.querySelector(".plot > svg");
  const toSvg = () => (state.live?.isZoomed() ? viewToSvg(state.live.panels, state.style) : new XMLSerializer().serializeToString(svg));
  if (charts.length > 0) button("CSV", "Download the data as CSV", () => download(`${name}.csv`, "text/csv", toCsv(charts)));
  button("SVG", "Download the view as SVG", () => download(`${name}.svg`, "image/svg+xml", toSvg()));
  button("PDF", "Print the figure or save it as PDF", () => printFigure(svg));
  if (charts.length > 0) {
    button(
      "Table",
      "Show the data as a table",
      (element) => {
        const isOpen = element.getAttribute("aria-expanded") === "true";
        element.setAttribute("aria-expanded", String(!isOpen));
        if (isOpen) figure.querySelector(".data-table").remove();
        else figure.append(dataTable(charts));
      },
      { "aria-expanded": "false" },
    );
  }
  const link = create("a", { class: "anchor", href: `#${figure.id}`, "aria-label": "Link to this figure" }, "#");
  tools.append(link);
  if (state.isThinned) tools.after(create("p", { class: "note" }, "Long lines are thinned here; peaks remain. The CSV file of the study has all points."));
}

/** Makes a figure interactive. */
function enhance(figure, data) {
  const known = data.figures[figure.dataset.study]?.[Number(figure.dataset.index)];
  const box = figure.querySelector(".plot");
  const name = figure.id.replaceAll(/[/:]/g, "-");
  if (!known) return addTools(figure, name, [], {});
  const charts = known.charts.map(parseChart);
  const state = { isThinned: known.thinned, style: appearanceOf(known, data.dark) };
  const title = charts.map((chart) => chart.title).join("; ");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  if (known.live) {
    const xAxis = charts[0].x.label;
    const full = commonRange(data.figures[figure.dataset.study], xAxis);
    const mount = () => new LivePlot(box, charts, state.style, `${figure.dataset.study} ${xAxis}`, full);
    state.live = mount();
    box.setAttribute("aria-label", `${title}. Arrow keys move the cursor, plus and minus zoom, zero resets the zoom.`);
    isDark.addEventListener("change", () => {
      state.live.destroy();
      state.live = mount();
    });
  } else {
    new StaticPlot(box, charts, known, state.style);
    box.setAttribute("aria-label", `${title}. Arrow keys read the values.`);
  }
  addTools(figure, name, charts, state);
}

/** Shows the scenario of a study when its section is opened. */
function setUpScenario(details, text) {
  if (!text) return;
  details.hidden = false;
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("pre")) return;
    const button = create("button", { type: "button" }, `Download ${details.dataset.file}`);
    button.addEventListener("click", () => download(details.dataset.file, "application/toml", text));
    details.append(button, create("pre", { tabindex: "0" }, text));
  });
}

/** Adds a button that copies a command. */
function addCopyButton(code) {
  if (!navigator.clipboard) return;
  const button = create("button", { type: "button", "aria-label": "Copy the command" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  code.after(" ", button);
}

async function setUpPage() {
  setUpContents();
  setUpFilters();
  document.querySelectorAll(".files code").forEach(addCopyButton);
  const data = await loadData();
  document.querySelectorAll("details.scenario").forEach((details) => setUpScenario(details, data.scenarios[details.dataset.study]));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        enhance(target, data);
      }
    },
    { rootMargin: "300px" },
  );
  document.querySelectorAll("figure").forEach((figure) => observer.observe(figure));
  document.documentElement.dataset.ready = "true";
}

setUpPage();
