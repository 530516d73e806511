// The lists and tables beside the drawing. Rows are created once and updated, so that they keep the focus.

const WORST_NOW = 10;
const FLOWS_SHOWN = 50;
const LINKS_PER_PAGE = 100;

function element(name, text, properties = {}) {
  const node = Object.assign(document.createElement(name), properties);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Adds a row whose first or second cell is a button, and returns its cells. */
function buttonRow(body, count, buttonCell, onClick) {
  const row = body.insertRow();
  const cells = Array.from({ length: count }, () => row.insertCell());
  const button = element("button", "", { type: "button" });
  button.addEventListener("click", onClick);
  cells[buttonCell].append(button);
  return { row, cells, button };
}

/** A bar beside a number. */
function setWithBar(cell, text, share) {
  const bar = element("span", undefined, { className: "bar" });
  bar.setAttribute("aria-hidden", "true");
  bar.style.backgroundSize = `${Math.round(100 * Math.min(1, share))}% 100%`;
  cell.replaceChildren(text, bar);
}

class WorstQueues {
  constructor(data, select, clock) {
    this.data = data;
    const body = byId("worst-now").tBodies[0];
    const count = Math.min(WORST_NOW, data.net.channels.length);
    this.rows = Array.from({ length: count }, () => {
      const row = buttonRow(body, 3, 0, () => select({ channel: row.channel }));
      return row;
    });
    const runBody = byId("worst-run").tBodies[0];
    this.peaks = data.net.peaks.map((peak) => {
      const row = buttonRow(runBody, 3, 0, () => select({ channel: peak.channel, step: stepOf(data.net, peak.ps) }));
      row.button.textContent = channelName(peak);
      setWithBar(row.cells[1], formatBytes(peak.bytes), peak.bytes / data.maxQueue);
      row.cells[2].textContent = clock(peak.ps);
      row.channel = peak.channel;
      return row;
    });
    if (!this.peaks.length) runBody.insertRow().insertCell().textContent = "No sample has a queue.";
  }

  update({ step, channel: selected }) {
    const { data } = this;
    const best = [];
    for (let channel = 0; channel < data.net.channels.length; channel++) {
      const queue = queueAt(data, channel, step);
      if (queue === 0 || (best.length === this.rows.length && queue <= best[best.length - 1][0])) continue;
      const position = best.findIndex(([other]) => other < queue);
      best.splice(position < 0 ? best.length : position, 0, [queue, channel]);
      if (best.length > this.rows.length) best.pop();
    }
    this.rows.forEach((row, index) => {
      row.row.hidden = index >= best.length;
      if (row.row.hidden) return;
      const [queue, channel] = best[index];
      row.channel = channel;
      row.button.textContent = channelName(data.net.channels[channel]);
      setWithBar(row.cells[1], formatBytes(queue), queue / data.maxQueue);
      row.cells[2].textContent = formatLoad(loadAt(data, channel, step));
      row.row.className = channel === selected ? "selected" : "";
    });
    for (const row of this.peaks) row.row.className = row.channel === selected ? "selected" : "";
  }
}

class FlowPanel {
  constructor(data, select, clock) {
    Object.assign(this, { data, select, clock, listed: "" });
    const group = byId("group");
    group.append(element("option", "all", { value: "-1" }));
    data.net.groups.forEach(({ name, law, connections }, index) => {
      group.append(element("option", `${name} (${law}, ${connections})`, { value: String(index) }));
    });
    for (const id of ["group", "search", "active"]) byId(id).addEventListener("input", () => this.list(this.state));
    byId("clear-flow").addEventListener("click", () => select({ flow: -1 }));
  }

  /** Returns whether a flow has started and has not finished in a step. */
  isActive(flow, step) {
    const [from, to] = stepTimes(this.data.net, step);
    return flow.start !== null && flow.start < to && (flow.end === null || flow.end > from);
  }

  list(state) {
    this.state = state;
    const { net } = this.data;
    const group = Number(byId("group").value);
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = [];
    net.flows.forEach((flow, index) => {
      if (group >= 0 && flow.group !== group) return;
      if (byId("active").checked && !this.isActive(flow, state.step)) return;
      const text = `${net.groups[flow.group].name} ${net.groups[flow.group].law} ${channelName(flow)} ${flow.id}`.toLowerCase();
      if (words.every((word) => text.includes(word))) matches.push(index);
    });
    const shown = matches.slice(0, FLOWS_SHOWN);
    const total = net.groups.reduce((sum, { connections }) => sum + connections, 0);
    const omitted = total - net.flows.length;
    byId("flow-count").textContent =
      `${matches.length} of ${net.flows.length} flows` +
      (matches.length > shown.length ? `, the first ${shown.length} are shown` : "") +
      (omitted > 0 ? `; ${omitted} more are not on this page` : "");
    const key = `${shown.join(",")}/${state.flow}`;
    if (key === this.listed) return;
    this.listed = key;
    byId("flows").replaceChildren(...shown.map((index) => this.item(index, index === state.flow)));
  }

  item(index, isSelected) {
    const flow = this.data.net.flows[index];
    const button = element("button", `${this.data.net.groups[flow.group].name}: ${channelName(flow)}`, { type: "button" });
    button.setAttribute("aria-pressed", String(isSelected));
    button.addEventListener("click", () => {
      this.select({ flow: isSelected ? -1 : index });
      byId("flows").querySelector(`[data-flow="${index}"]`)?.focus();
    });
    button.dataset.flow = String(index);
    const item = element("li");
    item.append(button);
    return item;
  }

  update(state) {
    const { net } = this.data;
    if (byId("active").checked || state.flow !== this.flow || !this.state) this.list(state);
    this.state = state;
    const flow = net.flows[state.flow];
    byId("path").hidden = !flow;
    if (flow && state.flow !== this.flow) this.showFlow(flow);
    this.flow = state.flow;
    if (!flow) return;
    this.hops.forEach(({ row, cells, channel }) => {
      cells[2].textContent = formatLoad(loadAt(this.data, channel, state.step));
      cells[3].textContent = formatBytes(queueAt(this.data, channel, state.step));
      cells[4].textContent = formatDelay(delayAt(this.data, channel, state.step));
      row.className = channel === state.channel ? "selected" : "";
    });
  }

  showFlow(flow) {
    const { net } = this.data;
    const { name, law } = net.groups[flow.group];
    byId("path-heading").textContent = channelName(flow);
    const start = flow.start === null ? "starts after another message" : `starts at ${this.clock(flow.start)}`;
    const bytes = flow.bytes === null ? "" : ` after ${formatBytes(flow.bytes)}`;
    const end = flow.end === null ? "does not finish" : `its last recorded message ends at ${this.clock(flow.end)}${bytes}`;
    byId("path-text").textContent = `${name}, law ${law}, connection ${flow.id}; ${start}, ${end}.`;
    const body = byId("hops").tBodies[0];
    body.replaceChildren();
    this.hops = flow.route.map((channel, hop) => {
      const row = buttonRow(body, 5, 1, () => this.select({ channel }));
      row.cells[0].textContent = String(hop + 1);
      row.button.textContent = channelName(net.channels[channel]);
      return { ...row, channel };
    });
  }
}

class LinkTable {
  constructor(data, select) {
    Object.assign(this, { data, select, limit: LINKS_PER_PAGE, rows: [] });
    byId("all").addEventListener("toggle", () => this.update(this.state));
    for (const id of ["link-search", "link-order"]) byId(id).addEventListener("input", () => this.update(this.state));
    byId("more-links").addEventListener("click", () => {
      this.limit += LINKS_PER_PAGE;
      this.update(this.state);
    });
  }

  update(state) {
    this.state = state;
    if (!byId("all").open) return;
    const { data } = this;
    const words = byId("link-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = [];
    data.net.channels.forEach((channel, index) => {
      const text = channelName(channel).toLowerCase();
      if (words.every((word) => text.includes(word))) matches.push(index);
    });
    const order = byId("link-order").value;
    const value = order === "queue" ? (c) => queueAt(data, c, state.step) : (c) => loadAt(data, c, state.step) ?? -1;
    if (order !== "name") matches.sort((a, b) => value(b) - value(a) || a - b);
    const shown = matches.slice(0, this.limit);
    byId("link-count").textContent = `${shown.length} of ${matches.length} directions of links`;
    byId("more-links").hidden = shown.length === matches.length;
    const body = byId("links").tBodies[0];
    while (this.rows.length < shown.length) {
      const row = buttonRow(body, 6, 0, () => this.select({ channel: row.channel }));
      this.rows.push(row);
    }
    this.rows.forEach((row, position) => {
      row.row.hidden = position >= shown.length;
      if (!row.row.hidden) this.fill(row, shown[position], state);
    });
  }

  fill(row, index, state) {
    const { data } = this;
    const channel = data.net.channels[index];
    row.channel = index;
    row.button.textContent = channel.names[0];
    row.button.setAttribute("aria-label", `Select ${channelName(channel)}`);
    row.cells[1].textContent = channel.ports > 1 ? `${channel.names[1]} (${channel.ports} links)` : channel.names[1];
    row.cells[2].textContent = formatRate(channel.bps);
    row.cells[3].textContent = formatLoad(loadAt(data, index, state.step));
    row.cells[4].textContent = formatBytes(queueAt(data, index, state.step));
    row.cells[5].textContent = formatDelay(delayAt(data, index, state.step));
    row.row.className = index === state.channel ? "selected" : "";
  }
}

/** The queue and the load of the selected channel over the whole run, or the worst queue of all. */
class Timeline {
  constructor(data, select, clock) {
    Object.assign(this, { data, clock, canvas: byId("timeline") });
    this.canvas.addEventListener("pointerdown", (event) => {
      const { left, width } = this.canvas.getBoundingClientRect();
      const share = (event.clientX - left - this.margin[0]) / (width - this.margin[0] - this.margin[1]);
      select({ step: Math.max(0, Math.min(data.net.steps - 1, Math.floor(share * data.net.steps))) });
    });
    byId("clear-queue").addEventListener("click", () => select({ channel: -1 }));
    this.margin = [52, 40];
  }

  update(state, colors) {
    const { data } = this;
    const { steps } = data.net;
    const isChosen = state.channel >= 0;
    byId("clear-queue").hidden = !isChosen;
    const first = state.channel * steps;
    const queues = isChosen ? data.queues.subarray(first, first + steps) : data.worst;
    const largest = queues.reduce((max, queue) => Math.max(max, queue), 0);
    const name = isChosen ? channelName(data.net.channels[state.channel]) : "The longest queue of any port";
    const now = isChosen ? describeChannel(data, state.channel, state.step) : `${name}: ${formatBytes(queues[state.step])}`;
    byId("queue-text").textContent = `${now}. In all time steps: up to ${formatBytes(largest)}.`;
    const label = `${name} over time, at most ${formatBytes(largest)} at ${this.clock(stepTimes(data.net, queues.indexOf(largest))[1])}`;
    this.canvas.setAttribute("aria-label", label);
    this.draw(queues, largest, isChosen ? data.loads.subarray(first, first + steps) : null, state.step, colors);
  }

  draw(queues, largest, loads, step, colors) {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    const [left, right] = this.margin, top = 18, bottom = height - 20;
    const { steps } = this.data.net;
    const x = (index) => left + ((width - left - right) * index) / steps;
    const y = (share) => bottom - (bottom - top) * share;
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = colors.line;
    context.strokeRect(left, top, width - left - right, bottom - top);
    context.fillStyle = colors.queue;
    context.globalAlpha = 0.55;
    context.beginPath();
    context.moveTo(left, bottom);
    queues.forEach((queue, index) => {
      const level = y(queue / (largest || 1));
      context.lineTo(x(index), level);
      context.lineTo(x(index + 1), level);
    });
    context.lineTo(x(steps), bottom);
    context.fill();
    context.globalAlpha = 1;
    if (loads) this.drawLoad(context, loads, x, y, colors);
    context.strokeStyle = colors.text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x(step + 0.5), top - 4);
    context.lineTo(x(step + 0.5), bottom);
    context.stroke();
    this.drawScales(context, largest, loads, { left, right, top, bottom, width }, colors);
  }

  drawLoad(context, loads, x, y, colors) {
    context.strokeStyle = colors.levels[5];
    context.lineWidth = 1.5;
    context.beginPath();
    loads.forEach((code, index) => {
      const level = y(Math.min(1, code === DOWN ? 0 : code / 200));
      context.lineTo(x(index), level);
      context.lineTo(x(index + 1), level);
    });
    context.stroke();
  }

  drawScales(context, largest, loads, { left, right, top, bottom, width }, colors) {
    const write = (text, at, level, align) => {
      context.textAlign = align;
      context.fillText(text, at, level);
    };
    context.fillStyle = colors.queue;
    write("queue", left, top - 6, "left");
    write(formatBytes(largest), left - 4, top + 8, "right");
    write("0", left - 4, bottom, "right");
    if (loads) {
      context.fillStyle = colors.levels[5];
      write("load", width - right, top - 6, "right");
      write("100 %", width - right + 4, top + 8, "left");
      write("0", width - right + 4, bottom, "left");
    }
    context.fillStyle = colors.soft;
    write(formatTime(this.data.net.start_ps), left, bottom + 14, "left");
    write(formatTime(this.data.net.end_ps), width - right, bottom + 14, "right");
  }
}
