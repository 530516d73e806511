// The state of the page: the time step, the selected channel, the selected flow and the box with the focus.

function showLegend(drawing, data) {
  const ratio = window.devicePixelRatio || 1;
  const item = (text, width, height, paint) => {
    const canvas = element("canvas");
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    paint(context);
    const node = element("span", undefined, { className: "item" });
    canvas.setAttribute("aria-hidden", "true");
    node.append(canvas, text);
    return node;
  };
  const line = (level, dash = []) => (context) => {
    context.setLineDash(dash);
    context.strokeStyle = drawing.colors.levels[level];
    context.lineWidth = 0.9 * (level === 0 || level > LEVELS ? 0.8 : 0.8 + 0.62 * level);
    context.beginPath();
    context.moveTo(0, 6);
    context.lineTo(26, 6);
    context.stroke();
  };
  const dot = (share) => (context) => {
    context.fillStyle = drawing.colors.queue;
    context.beginPath();
    context.arc(10, 10, 1.2 + 7 * Math.sqrt(share), 0, 7);
    context.fill();
  };
  const bounds = Array.from({ length: LEVELS }, (_, i) => [i + 1, Math.round((100 * i) / LEVELS), Math.round((100 * (i + 1)) / LEVELS)]);
  const items = [item("idle", 26, 12, line(0))];
  for (const [level, from, to] of bounds) items.push(item(`load ${from} to ${to} %`, 26, 12, line(level)));
  items.push(item("down", 26, 12, line(LEVELS + 1, [5, 3])), item("not sampled", 26, 12, line(0, [1.5, 3])));
  const queues = data.maxQueue > 0 ? [0.05, 1] : [];
  for (const share of queues) items.push(item(`queue ${formatBytes(share * data.maxQueue)}`, 20, 20, dot(share)));
  byId("legend").replaceChildren(...items);
}

class Page {
  constructor(data) {
    this.data = data;
    this.state = { step: 0, channel: -1, flow: -1, box: -1 };
    this.drawing = new Drawing(data, byId("network"));
    this.clock = clockFormat(data.net);
    const select = (change) => this.select(change);
    this.worst = new WorstQueues(data, select, this.clock);
    this.flows = new FlowPanel(data, select, this.clock);
    this.links = new LinkTable(data, select);
    this.timeline = new Timeline(data, select, this.clock);
    this.isPlaying = false;
    this.showTexts();
    this.listen();
    new PointerInput(this).listen();
    this.drawing.resize();
    // The page opens at the longest queue of the run, unless its address has a time.
    if (data.net.peaks.length) this.state.step = stepOf(data.net, data.net.peaks[0].ps);
    this.readHash();
    this.update();
  }

  showTexts() {
    const { net } = this.data;
    byId("summary").textContent = `${net.summary}.`;
    byId("notes").replaceChildren(...net.notes.map((note) => element("li", note)));
    byId("time").max = String(net.steps - 1);
    showLegend(this.drawing, this.data);
  }

  /** Changes the state, the page and its address. */
  select(change) {
    const before = this.state;
    this.state = { ...before, ...change };
    if (change.channel >= 0) {
      const { ends } = this.data.net.channels[change.channel];
      this.drawing.reveal(ends[0]);
      byId("readout").textContent = describeChannel(this.data, change.channel, this.state.step);
    }
    this.writeHash();
    this.requestUpdate();
  }

  requestUpdate() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.update();
    });
  }

  update() {
    const { state, data } = this;
    const [, to] = stepTimes(data.net, state.step);
    byId("time").value = String(state.step);
    byId("time").setAttribute("aria-valuetext", this.clock(to));
    byId("clock").textContent = this.clock(to);
    const started = performance.now();
    this.drawing.draw(state);
    this.drawTime = performance.now() - started;
    this.worst.update(state);
    this.flows.update(state);
    this.timeline.update(state, this.drawing.colors);
    // The long table follows once the time stands still.
    if (!this.isPlaying) this.links.update(state);
    if (this.hovered) this.describe(this.hovered);
  }

  goTo(step) {
    this.select({ step: Math.max(0, Math.min(this.data.net.steps - 1, step)) });
  }

  setPlaying(isPlaying) {
    this.isPlaying = isPlaying;
    byId("play").textContent = isPlaying ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(isPlaying));
    if (!isPlaying) return this.requestUpdate();
    if (this.state.step === this.data.net.steps - 1) this.goTo(0);
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    // The whole run takes about 15 s, at most 60 steps per second; with reduced motion, two steps per second.
    const perSecond = isCalm ? 2 : Math.max(4, Math.min(60, this.data.net.steps / 15));
    let last = performance.now(), due = 0;
    const tick = (now) => {
      if (!this.isPlaying) return;
      due += ((now - last) / 1000) * perSecond;
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole > 0) this.goTo(this.state.step + whole);
      if (this.state.step === this.data.net.steps - 1) return this.setPlaying(false);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  /** Zooms around the box with the focus, or around the box that sends on the selected channel. */
  zoom(factor) {
    const { net } = this.data;
    const { box, channel } = this.state;
    const center = box >= 0 ? box : channel >= 0 ? net.channels[channel].ends[0] : -1;
    if (center < 0) return this.drawing.zoom(factor);
    const [x, y, w, h] = this.drawing.screen(net.boxes[center].place);
    this.drawing.zoom(factor, x + w / 2, y + h / 2);
    this.drawing.reveal(center);
  }

  /** Returns the numbers of what is under the pointer or has the focus. */
  textOf({ box, channel, link }) {
    const { data, state } = this;
    if (link !== undefined) {
      const { forward, backward, b } = this.drawing.links[link];
      const lines = [forward, backward].filter((c) => c >= 0).map((c) => describeChannel(data, c, state.step));
      const { cells, name } = data.net.boxes[b];
      return lines.join("\n") || (cells ? `Links to ${name}; point at a cell for its numbers.` : "");
    }
    if (channel >= 0) return describeChannel(data, channel, state.step);
    const one = data.net.boxes[box];
    const worst = this.worstEgress(box);
    const members = one.hosts > 1 ? `, ${one.hosts} hosts` : one.switches > 1 ? `, ${one.switches} switches` : "";
    if (worst < 0) return `${one.name}${members}: no queue of its own is sampled`;
    return `${one.name}${members}; its longest queue: ${describeChannel(data, worst, state.step)}`;
  }

  /** Returns the channel with the longest queue that leaves a box, or the channel to a host. */
  worstEgress(box) {
    const { data, state } = this;
    const isHost = data.net.boxes[box].tier === 0;
    let best = -1;
    data.net.channels.forEach(({ ends }, channel) => {
      if (ends[isHost ? 1 : 0] !== box) return;
      if (best < 0 || queueAt(data, channel, state.step) > queueAt(data, best, state.step)) best = channel;
    });
    return best;
  }

  describe(hit) {
    const text = this.textOf(hit);
    byId("tip").textContent = text;
    if (byId("readout").textContent !== text) byId("readout").textContent = text;
  }

  listen() {
    byId("play").addEventListener("click", () => this.setPlaying(!this.isPlaying));
    byId("back").addEventListener("click", () => this.goTo(this.state.step - 1));
    byId("forth").addEventListener("click", () => this.goTo(this.state.step + 1));
    byId("time").addEventListener("input", () => this.goTo(Number(byId("time").value)));
    const redraw = (change) => () => {
      change();
      this.requestUpdate();
    };
    byId("zoom-in").addEventListener("click", redraw(() => this.zoom(1.4)));
    byId("zoom-out").addEventListener("click", redraw(() => this.zoom(1 / 1.4)));
    byId("zoom-fit").addEventListener("click", redraw(() => this.drawing.fit()));
    addEventListener("resize", redraw(() => this.drawing.resize()));
    addEventListener("hashchange", redraw(() => this.readHash()));
    const recolor = redraw(() => {
      this.drawing.setColors();
      showLegend(this.drawing, this.data);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
    matchMedia("print").addEventListener("change", redraw(() => this.drawing.resize()));
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.matches("input[type=search], select, textarea")) return;
    if (event.key === " " && !target.matches("button, summary, input")) {
      event.preventDefault();
      this.setPlaying(!this.isPlaying);
    } else if (event.key === "," || event.key === ".") {
      this.goTo(this.state.step + (event.key === "." ? 1 : -1));
    } else if ((event.key === "Home" || event.key === "End") && !target.matches("input")) {
      event.preventDefault();
      this.goTo(event.key === "Home" ? 0 : this.data.net.steps - 1);
    }
  }

  /** Reads the time in microseconds, the channel and the connection from the address. */
  readHash() {
    const { net } = this.data;
    const values = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (/^\d+(\.\d+)?$/.test(values.get(name) ?? "") ? Number(values.get(name)) : -1);
    const channel = number("port");
    this.state = {
      ...this.state,
      step: values.has("t") && number("t") >= 0 ? stepOf(net, number("t") * 1e6) : this.state.step,
      channel: Number.isInteger(channel) && channel < net.channels.length ? channel : -1,
      flow: values.has("flow") ? net.flows.findIndex(({ id }) => id === number("flow")) : -1,
    };
  }

  writeHash() {
    const { step, channel, flow } = this.state;
    const values = [`t=${stepTimes(this.data.net, step)[1] / 1e6}`];
    if (channel >= 0) values.push(`port=${channel}`);
    if (flow >= 0) values.push(`flow=${this.data.net.flows[flow].id}`);
    // Browsers limit how often the address may change.
    clearTimeout(this.hashTimer);
    this.hashTimer = setTimeout(() => history.replaceState(null, "", `#${values.join("&")}`), 150);
  }
}

/** Pointer, wheel and keyboard on the drawing. */
class PointerInput {
  constructor(page) {
    Object.assign(this, { page, canvas: byId("network"), drag: null });
  }

  position(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  listen() {
    const { canvas, page } = this;
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { from: this.position(event), last: this.position(event), moved: false };
    });
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    canvas.addEventListener("wheel", (event) => {
      // Without Ctrl, the wheel scrolls the page.
      if (!event.ctrlKey) return;
      event.preventDefault();
      page.drawing.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, ...this.position(event));
      page.requestUpdate();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => page.select({ box: -1 }));
  }

  onMove(event) {
    const [x, y] = this.position(event);
    const { drag, page } = this;
    if (drag && event.buttons) {
      drag.moved ||= Math.hypot(x - drag.from[0], y - drag.from[1]) > 4;
      if (drag.moved) {
        page.drawing.pan(x - drag.last[0], y - drag.last[1]);
        drag.last = [x, y];
        this.hover(null);
        return page.requestUpdate();
      }
    }
    this.hover(page.drawing.hit(x, y), x, y);
  }

  onUp(event) {
    const { drag, page } = this;
    this.drag = null;
    if (!drag || drag.moved) return;
    const hit = page.drawing.hit(...this.position(event));
    if (!hit) return page.select({ channel: -1 });
    const channel = hit.channel >= 0 ? hit.channel : hit.box >= 0 ? page.worstEgress(hit.box) : -1;
    if (channel >= 0) page.select({ channel });
  }

  hover(hit, x = 0, y = 0) {
    const { page } = this;
    const tip = byId("tip");
    page.hovered = hit;
    tip.hidden = !hit;
    if (!hit) return;
    page.describe(hit);
    const left = Math.min(x + 14, page.drawing.width - tip.offsetWidth - 6);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > page.drawing.height ? Math.max(2, y - tip.offsetHeight - 10) : y + 18}px`;
  }

  onKey(event) {
    const { page } = this;
    const { net } = page.data;
    const { box } = page.state;
    if (event.key === "+" || event.key === "-") {
      page.zoom(event.key === "+" ? 1.4 : 1 / 1.4);
      return page.requestUpdate();
    }
    if (event.key === "Enter" && box >= 0) {
      const channel = page.worstEgress(box);
      return channel >= 0 ? page.select({ channel }) : undefined;
    }
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const next = box < 0 ? 0 : this.neighbor(box, ...steps);
    page.drawing.reveal(next);
    page.select({ box: next });
    page.describe({ box: next, channel: net.boxes[next].inside ?? -1 });
  }

  /** Returns the next box in a tier, or the nearest box of the next tier. */
  neighbor(box, across, up) {
    const { boxes } = this.page.data.net;
    const center = (index) => boxes[index].place[0] + boxes[index].place[2] / 2;
    const candidates = boxes.map((_, index) => index).filter((index) => {
      if (index === box || boxes[index].tier !== boxes[box].tier + up) return false;
      return up !== 0 || (center(index) - center(box)) * across > 0;
    });
    const distance = (index) => Math.abs(center(index) - center(box));
    if (candidates.length === 0) return box;
    return candidates.reduce((best, index) => (distance(index) < distance(best) ? index : best));
  }
}

async function start() {
  try {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream; use one from 2023 or later");
    const data = await loadData();
    byId("content").hidden = false;
    window.page = new Page(data);
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    byId("problem").textContent = `The map cannot be shown: ${error.message}.`;
    byId("problem").hidden = false;
    throw error;
  }
}
start();
