// The drawing of the network. The half of a link next to a box shows what that box sends.

const LEVELS = 7;
const NAME_SPACE = 12;
const levelOf = (load) => (load === null ? LEVELS + 1 : load === 0 ? 0 : Math.min(LEVELS, 1 + Math.floor(load * LEVELS)));

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["back", "text", "soft", "line", "box", "edge", "accent", "queue", "link", "panel"];
  const colors = Object.fromEntries(names.map((name) => [name, color(name)]));
  colors.levels = [color("idle"), ...Array.from({ length: LEVELS }, (_, i) => color(`l${i + 1}`)), color("down")];
  return colors;
}

class Drawing {
  constructor(data, canvas) {
    Object.assign(this, { data, canvas, context: canvas.getContext("2d"), view: { scale: 1, x: 0, y: 0 } });
    const { net } = data;
    this.links = net.links.map(([a, b, forward, backward, bend]) => this.geometry(a, b, forward, backward, bend));
    // The link and the direction of each channel. Cells share the link of their box.
    this.linkOf = new Array(net.channels.length).fill(null);
    this.links.forEach((link, index) => {
      if (link.forward >= 0) this.linkOf[link.forward] = { index, reverse: false };
      if (link.backward >= 0) this.linkOf[link.backward] = { index, reverse: true };
      const { cells, hosts } = net.boxes[link.b];
      if (cells) for (let i = 0; i < hosts; i++) this.linkOf[cells[1] + i] = { index, reverse: false };
    });
    // Tiers with links inside them, whose names are above the boxes.
    this.tiersWithLinks = new Set(this.links.filter((l) => net.boxes[l.a].tier === net.boxes[l.b].tier).map((l) => net.boxes[l.a].tier));
    this.order = net.boxes.map((_, index) => index).sort((a, b) => net.boxes[a].place[0] - net.boxes[b].place[0]);
    this.firstRow = new Map();
    for (const { tier, place } of net.boxes) this.firstRow.set(tier, Math.min(place[1], this.firstRow.get(tier) ?? Infinity));
    // The link between each box of hosts and its switch.
    this.hostLink = new Map(this.links.filter((l) => net.boxes[l.b].tier === 0).map((link) => [link.b, link]));
    this.setColors();
  }

  setColors() {
    this.colors = readColors();
  }

  /** Returns the ends of a link, and the control point of its curve. */
  geometry(a, b, forward, backward, bend) {
    const boxes = this.data.net.boxes;
    const anchor = (from, to) => {
      const [x, y, w, h] = boxes[from].place;
      const difference = boxes[to].tier - boxes[from].tier;
      if (difference === 0 && bend === 0) return [boxes[to].place[0] > x ? x + w : x, y + h / 2];
      return [x + w / 2, difference > 0 || (difference === 0 && bend > 0) ? y : y + h];
    };
    const [ax, ay] = anchor(a, b), [bx, by] = anchor(b, a);
    const length = Math.hypot(bx - ax, by - ay) || 1;
    const [nx, ny] = [(by - ay) / length, -(bx - ax) / length];
    const cx = (ax + bx) / 2 + 2 * bend * nx, cy = (ay + by) / 2 + 2 * bend * ny;
    return { a, b, forward, backward, bend, ax, ay, bx, by, cx, cy };
  }

  resize() {
    const { net } = this.data;
    const width = this.canvas.parentElement.clientWidth;
    const height = Math.round(Math.max(220, Math.min(640, (width * net.height) / net.width + 2 * NAME_SPACE)));
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this, { width, height, ratio });
    this.fit();
  }

  /** Returns the scale at which the whole network is visible, with space for names above and below it. */
  smallestScale() {
    const { net } = this.data;
    return Math.min(this.width / net.width, (this.height - 2 * NAME_SPACE) / net.height);
  }

  fit() {
    const { net } = this.data;
    const scale = this.smallestScale();
    this.view = { scale, x: (this.width - net.width * scale) / 2, y: (this.height - net.height * scale) / 2 };
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const least = this.smallestScale();
    const scale = Math.max(least, Math.min(8, this.view.scale * factor));
    const change = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change };
    if (scale === least) this.fit();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
  }

  /** Moves the view so that a box is visible. */
  reveal(box) {
    const [x, y, w, h] = this.data.net.boxes[box].place;
    const { scale } = this.view;
    const [sx, sy] = [(x + w / 2) * scale + this.view.x, (y + h / 2) * scale + this.view.y];
    if (sx < 10 || sx > this.width - 10) this.view.x += this.width / 2 - sx;
    if (sy < 10 || sy > this.height - 10) this.view.y += this.height / 2 - sy;
  }

  /** Returns the load and the queue of a link's direction. The line to a box of cells shows all cells together. */
  direction(link, reverse, step) {
    const { data } = this;
    const channel = reverse ? link.backward : link.forward;
    if (channel >= 0) return [loadAt(data, channel, step), queueAt(data, channel, step)];
    const box = data.net.boxes[link.b];
    if (reverse || !box.cells) return null;
    let [load, queue, up] = [0, 0, 0];
    for (let i = box.cells[1]; i < box.cells[1] + box.hosts; i++) {
      const one = loadAt(data, i, step);
      if (one !== null) [load, up] = [load + one, up + 1];
      queue = Math.max(queue, queueAt(data, i, step));
    }
    return [up ? load / up : null, queue];
  }

  /** Adds half of a link to a path. */
  trace(path, link, reverse) {
    const { scale, x, y } = this.view;
    const point = (px, py) => [px * scale + x, py * scale + y];
    const [sx, sy] = reverse ? [link.bx, link.by] : [link.ax, link.ay];
    path.moveTo(...point(sx, sy));
    const mx = (link.ax + link.bx + 2 * link.cx) / 4, my = (link.ay + link.by + 2 * link.cy) / 4;
    if (link.bend === 0) path.lineTo(...point(mx, my));
    else path.quadraticCurveTo(...point((sx + link.cx) / 2, (sy + link.cy) / 2), ...point(mx, my));
  }

  /** Returns the place of the queue of a link's direction: a little away from the sending box. */
  queuePoint(link, reverse) {
    const { scale, x, y } = this.view;
    const [sx, sy, ex, ey] = reverse ? [link.bx, link.by, link.ax, link.ay] : [link.ax, link.ay, link.bx, link.by];
    const length = Math.hypot(ex - sx, ey - sy) * scale || 1;
    const t = Math.min(0.25, 16 / length);
    const at = (s, c, e) => (1 - t) * (1 - t) * s + 2 * t * (1 - t) * c + t * t * e;
    return [at(sx, link.cx, ex) * scale + x, at(sy, link.cy, ey) * scale + y];
  }

  lineWidth(level) {
    const crowd = Math.max(0.35, Math.min(1, Math.sqrt(250 / this.links.length)));
    const size = Math.max(0.45, Math.min(1.5, this.view.scale * 1.3)) * Math.min(1, crowd * Math.max(1, this.view.scale));
    return size * (level === 0 || level > LEVELS ? 0.8 : 0.8 + 0.62 * level);
  }

  radius(queue) {
    const size = Math.max(0.6, Math.min(1.4, this.view.scale * 1.2));
    return size * (1.2 + 7 * Math.sqrt(queue / (this.data.maxQueue || 1)));
  }

  /** Draws everything. `state` has the step, the channel, the flow and the box under the pointer or focus. */
  draw(state) {
    const { context, colors, data } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const flow = state.flow >= 0 ? data.net.flows[state.flow] : null;
    const lines = Array.from({ length: LEVELS + 2 }, () => new Path2D());
    const unknown = new Path2D(), queues = new Path2D();
    for (const link of this.links) {
      for (const reverse of [false, true]) {
        const values = this.direction(link, reverse, state.step);
        if (!values) {
          this.trace(unknown, link, reverse);
          continue;
        }
        this.trace(lines[levelOf(values[0])], link, reverse);
        if (values[1] > 0) {
          const [x, y] = this.queuePoint(link, reverse), radius = this.radius(values[1]);
          queues.moveTo(x + radius, y);
          queues.arc(x, y, radius, 0, 7);
        }
      }
    }
    context.globalAlpha = flow ? 0.3 : 1;
    this.strokeLevels(unknown, lines);
    context.globalAlpha = 1;
    if (flow) this.drawPath(flow, state.step);
    context.globalAlpha = flow ? 0.45 : 0.85;
    context.fillStyle = colors.queue;
    context.fill(queues);
    context.globalAlpha = 1;
    this.drawBoxes(state, flow);
    this.drawSelection(state);
    this.drawNames();
  }

  strokeLevels(unknown, lines) {
    const { context, colors } = this;
    context.setLineDash([1.5, 3]);
    context.strokeStyle = colors.levels[0];
    context.lineWidth = this.lineWidth(0);
    context.stroke(unknown);
    lines.forEach((line, level) => {
      context.setLineDash(level > LEVELS ? [5, 3] : []);
      context.strokeStyle = colors.levels[level];
      context.lineWidth = this.lineWidth(level);
      context.stroke(line);
    });
    context.setLineDash([]);
  }

  /** Draws the links of a flow above all others, with a border in the color of paths. */
  drawPath(flow, step) {
    const { context, colors } = this;
    const parts = flow.route.map((channel) => this.linkOf[channel]).filter(Boolean);
    const uplink = this.hostLink.get(flow.ends[0]);
    const border = new Path2D(), queues = new Path2D();
    const links = parts.map(({ index }) => this.links[index]).concat(uplink ? [uplink] : []);
    for (const link of links) for (const reverse of [false, true]) this.trace(border, link, reverse);
    context.strokeStyle = colors.accent;
    context.lineWidth = this.lineWidth(LEVELS) + 5;
    context.lineCap = "round";
    context.stroke(border);
    context.lineCap = "butt";
    for (const { index, reverse } of parts) {
      const link = this.links[index], inner = new Path2D();
      const values = this.direction(link, reverse, step) || [0, 0];
      for (const side of [false, true]) this.trace(inner, link, side);
      context.strokeStyle = colors.back;
      context.lineWidth = this.lineWidth(LEVELS) + 1.5;
      context.stroke(inner);
      context.strokeStyle = colors.levels[levelOf(values[0])];
      context.lineWidth = this.lineWidth(Math.max(2, levelOf(values[0])));
      context.stroke(inner);
      const [x, y] = this.queuePoint(link, reverse), radius = this.radius(values[1]);
      queues.moveTo(x + radius, y);
      if (values[1] > 0) queues.arc(x, y, radius, 0, 7);
    }
    context.fillStyle = colors.queue;
    context.fill(queues);
  }

  /** Returns the place of a cell, on the screen. */
  cellPlace(box, cell) {
    const { scale, x, y } = this.view;
    const [left, top] = box.place;
    const [columns] = box.cells;
    const size = 8 * scale;
    return [(left + 2) * scale + x + (cell % columns) * size, (top + 2) * scale + y + Math.floor(cell / columns) * size, size];
  }

  screen(place) {
    const { scale, x, y } = this.view;
    return [place[0] * scale + x, place[1] * scale + y, place[2] * scale, place[3] * scale];
  }

  drawBoxes(state, flow) {
    const { context, colors } = this;
    const queues = new Path2D();
    context.lineWidth = 1;
    this.data.net.boxes.forEach((box, index) => {
      const [x, y, w, h] = this.screen(box.place);
      if (x + w < 0 || x > this.width) return;
      context.fillStyle = colors.box;
      context.strokeStyle = colors.edge;
      context.fillRect(x, y, w, h);
      if (box.cells) this.drawCells(box, state.step, queues);
      if (box.inside >= 0) this.drawInside(box.inside, [x, y, w, h], state.step, queues);
      context.strokeRect(x, y, w, h);
      const isEnd = flow && flow.ends.includes(index);
      if (isEnd || index === state.box) {
        context.save();
        context.lineWidth = 2.5;
        context.strokeStyle = isEnd ? colors.accent : colors.link;
        context.strokeRect(x - 2, y - 2, w + 4, h + 4);
        context.restore();
      }
    });
    context.fillStyle = colors.queue;
    context.fill(queues);
    if (flow) this.drawEnds(flow);
  }

  /** Fills the cells of a box with the load of their links, and adds a bar per queue. */
  drawCells(box, step, queues) {
    const { context, colors, data } = this;
    for (let cell = 0; cell < box.hosts; cell++) {
      const channel = box.cells[1] + cell;
      const [x, y, size] = this.cellPlace(box, cell);
      context.fillStyle = colors.levels[levelOf(loadAt(data, channel, step))];
      context.fillRect(x + 0.5, y + 0.5, size - 1, size - 1);
      this.addBar(queues, queueAt(data, channel, step), [x + 0.5, y + 0.5, size - 1, size - 1]);
    }
  }

  drawInside(channel, [x, y, w, h], step, queues) {
    const { context, colors, data } = this;
    context.fillStyle = colors.levels[levelOf(loadAt(data, channel, step))];
    context.fillRect(x, y, w, h);
    this.addBar(queues, queueAt(data, channel, step), [x, y, w, h]);
  }

  addBar(path, queue, [x, y, w, h]) {
    if (queue === 0) return;
    const height = Math.max(1, h * Math.sqrt(queue / this.data.maxQueue));
    path.rect(x + w * 0.55, y + h - height, w * 0.45, height);
  }

  drawEnds(flow) {
    const { context, colors } = this;
    context.lineWidth = 2;
    context.strokeStyle = colors.accent;
    flow.ends.forEach((end, i) => {
      const box = this.data.net.boxes[end];
      if (!box.cells) return;
      const [x, y, size] = this.cellPlace(box, flow.cells[i]);
      context.strokeRect(x - 1, y - 1, size + 2, size + 2);
    });
  }

  /** Marks the selected queue with a ring, or its cell with a border. */
  drawSelection(state) {
    if (state.channel < 0) return;
    const { context, colors, data } = this;
    const box = data.net.boxes[data.net.channels[state.channel].ends[1]];
    context.strokeStyle = colors.text;
    context.lineWidth = 2;
    context.beginPath();
    if (box.cells) {
      const [x, y, size] = this.cellPlace(box, state.channel - box.cells[1]);
      context.rect(x - 2, y - 2, size + 4, size + 4);
    } else if (box.inside === state.channel) {
      const [x, y, w, h] = this.screen(box.place);
      context.rect(x - 2, y - 2, w + 4, h + 4);
    } else {
      const { index, reverse } = this.linkOf[state.channel];
      const [x, y] = this.queuePoint(this.links[index], reverse);
      context.arc(x, y, this.radius(queueAt(data, state.channel, state.step)) + 3, 0, 7);
    }
    context.stroke();
  }

  /** Writes the names of boxes where they do not cover each other. */
  drawNames() {
    const { context, colors } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.strokeStyle = colors.back;
    context.fillStyle = colors.text;
    const { boxes } = this.data.net;
    const rows = new Map();
    for (const index of this.order) {
      const row = `${boxes[index].tier} ${boxes[index].place[1]}`;
      if (!rows.has(row)) rows.set(row, []);
      rows.get(row).push(index);
    }
    for (const row of rows.values()) this.drawRowNames(row.map((index) => boxes[index]));
  }

  /** Writes the names of one row: in the boxes or beside them if all fit, otherwise above them, and below hosts. */
  drawRowNames(boxes) {
    const { context } = this;
    const { tier, place } = boxes[0];
    const widths = boxes.map(({ name }) => context.measureText(name).width);
    const places = boxes.map((box) => this.screen(box.place));
    const fits = ([x, , w], i) => x + w + widths[i] + 8 < (i + 1 < places.length ? places[i + 1][0] : this.width);
    const isInside = tier > 0 && places.every(([, , w, h], i) => w > widths[i] + 6 && h > 16);
    const isBeside = !isInside && tier > 0 && !this.tiersWithLinks.has(tier) && places.every(fits);
    // Above a box of a lower row is another box.
    if (!isInside && !isBeside && tier > 0 && place[1] > this.firstRow.get(tier)) return;
    let taken = 0;
    boxes.forEach(({ name }, i) => {
      const [x, y, w, h] = places[i];
      const left = isBeside ? x + w + 3 : Math.max(Math.min(2, x), x + w / 2 - widths[i] / 2);
      const top = isInside || isBeside ? y + h / 2 : tier === 0 ? y + h + 8 : y - 7;
      if (left < taken || left + widths[i] > this.width) return;
      taken = left + widths[i] + 8;
      context.strokeText(name, left, top);
      context.fillText(name, left, top);
    });
  }

  /** Returns what is at a point: a box and perhaps a channel, or a channel of a link. */
  hit(x, y) {
    const { net } = this.data;
    for (let index = 0; index < net.boxes.length; index++) {
      const box = net.boxes[index];
      const [bx, by, w, h] = this.screen(box.place);
      const slack = Math.max(0, 3 - w / 4);
      if (x < bx - slack || x > bx + w + slack || y < by - slack || y > by + h + slack) continue;
      if (!box.cells) return { box: index, channel: box.inside ?? -1 };
      for (let cell = 0; cell < box.hosts; cell++) {
        const [cx, cy, size] = this.cellPlace(box, cell);
        if (x >= cx && x < cx + size && y >= cy && y < cy + size) return { box: index, channel: box.cells[1] + cell };
      }
      return { box: index, channel: -1 };
    }
    let best = { distance: 6 };
    this.links.forEach((link, index) => {
      const distance = this.distance(link, x, y);
      if (distance < best.distance) best = { distance, index };
    });
    if (best.index === undefined) return null;
    const link = this.links[best.index];
    const { scale, x: ox, y: oy } = this.view;
    const toA = Math.hypot(x - link.ax * scale - ox, y - link.ay * scale - oy);
    const toB = Math.hypot(x - link.bx * scale - ox, y - link.by * scale - oy);
    const near = toA <= toB ? link.forward : link.backward;
    return { box: -1, link: best.index, channel: near >= 0 ? near : Math.max(link.forward, link.backward) };
  }

  /** Returns the distance of a point from a link, along four straight pieces. */
  distance(link, x, y) {
    const { scale, x: ox, y: oy } = this.view;
    const pieces = link.bend === 0 ? 1 : 4;
    let nearest = Infinity;
    let [px, py] = [link.ax * scale + ox, link.ay * scale + oy];
    for (let i = 1; i <= pieces; i++) {
      const t = i / pieces, at = (a, c, b) => (1 - t) * (1 - t) * a + 2 * t * (1 - t) * c + t * t * b;
      const qx = at(link.ax, link.cx, link.bx) * scale + ox, qy = at(link.ay, link.cy, link.by) * scale + oy;
      const [dx, dy] = [qx - px, qy - py];
      const along = Math.max(0, Math.min(1, ((x - px) * dx + (y - py) * dy) / (dx * dx + dy * dy || 1)));
      nearest = Math.min(nearest, Math.hypot(x - px - along * dx, y - py - along * dy));
      [px, py] = [qx, qy];
    }
    return nearest;
  }
}
