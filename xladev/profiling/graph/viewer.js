// Draws programs as graphs on a canvas: pan, zoom, search, expand, select, colour, compare.
"use strict";

const BOX = { width: 190, height: 46, gapX: 26, gapY: 36, header: 40, pad: 16 };
const FEWEST_PIXELS = 0.28; // below this scale, boxes have no text
const READABLE = 0.85; // below this scale, text is too small to read with ease
const FEWEST_CURVES = 0.12; // below this one, boxes have no round corners and edges no curves
const MOST_BORDERS = 5000; // seen from afar, boxes of more have none
const FOUND_SHOWN = 200;
const LEGEND_SHOWN = 24;
const MARKS = { removed: "#ff8787", added: "#8ce99a", rewired: "#ffd43b" };

/** One program: which calls are open, where everything is, and how it is looked at. */
class View {
  constructor(data, canvas, page) {
    this.data = data;
    this.canvas = canvas;
    this.page = page;
    this.open = new Set();
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.selected = null;
    this.found = new Set();
    this.place();
    this.listen();
  }

  // Placing

  place() {
    this.boxes = [];
    this.edges = [];
    const size = this.placeComputation(this.data.entry, "", 0, 0, 0);
    this.width = size.width;
    this.height = size.height;
    this.byPath = new Map(this.boxes.map((box) => [box.path, box]));
    this.boxes.sort((a, b) => a.depth - b.depth);
  }

  sizeOf(number, path, depth) {
    const node = this.data.computations[number[0]].nodes[number[1]];
    if (!this.open.has(path) || !node.calls) return { width: BOX.width, height: BOX.height };
    let width = BOX.pad, height = 0;
    for (const [at, called] of node.calls.entries()) {
      const inner = this.measure(called, `${path}.${at}`, depth + 1);
      width += inner.width + BOX.pad;
      height = Math.max(height, inner.height);
    }
    return { width: Math.max(width, BOX.width), height: height + BOX.header + BOX.pad };
  }

  measure(computation, path, depth) {
    const saved = [this.boxes, this.edges];
    this.boxes = [];
    this.edges = [];
    const size = this.placeComputation(computation, path, 0, 0, depth);
    [this.boxes, this.edges] = saved;
    return size;
  }

  placeComputation(number, path, left, top, depth) {
    const computation = this.data.computations[number];
    const places = new Map();
    let y = top, right = left;
    for (const row of computation.rows) {
      let shift = 0, height = 0;
      for (const [item, x] of row) {
        const isNode = item < computation.nodes.length;
        const at = `${path}/${number}:${item}`;
        const size = isNode ? this.sizeOf([number, item], at, depth) : { width: BOX.width, height: 0 };
        const begin = left + x * (BOX.width + BOX.gapX) + shift;
        shift += size.width - BOX.width;
        places.set(item, { x: begin, y, ...size, isNode, at });
        height = Math.max(height, size.height);
        right = Math.max(right, begin + size.width);
      }
      y += Math.max(height, 8) + BOX.gapY;
    }
    const lowest = Math.min(...[...places.values()].map((p) => p.x), left);
    const move = left - lowest;
    for (const [item, place] of places) {
      place.x += move;
      if (place.isNode) this.addBox(number, item, place, depth);
    }
    for (const [a, b, bends] of computation.edges) this.addEdge(places, a, b, bends, depth);
    return { width: right + move - left, height: Math.max(y - top - BOX.gapY, BOX.height) };
  }

  addBox(number, item, place, depth) {
    const node = this.data.computations[number].nodes[item];
    const box = { ...place, node, computation: number, item, path: place.at, depth };
    box.isOpen = this.open.has(box.path) && Boolean(node.calls);
    this.boxes.push(box);
    if (!box.isOpen) return;
    let x = box.x + BOX.pad;
    for (const [at, called] of node.calls.entries()) {
      const path = `${box.path}.${at}`;
      x += this.placeComputation(called, path, x, box.y + BOX.header, depth + 1).width + BOX.pad;
    }
  }

  addEdge(places, a, b, bends, depth) {
    const from = places.get(a), to = places.get(b);
    const points = [[from.x + from.width / 2, from.y + from.height]];
    for (const bend of bends) {
      const place = places.get(bend);
      points.push([place.x + place.width / 2, place.y]);
    }
    points.push([to.x + to.width / 2, to.y]);
    const ys = points.map((p) => p[1]), xs = points.map((p) => p[0]);
    this.edges.push({
      points, depth, from: from.at, to: to.at,
      top: Math.min(...ys), bottom: Math.max(...ys), left: Math.min(...xs), right: Math.max(...xs),
    });
  }

  // Looking

  fit() {
    const wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
    this.scale = Math.min(1, (wide - 40) / this.width, (high - 50) / this.height);
    this.scale = Math.max(this.scale, 0.02);
    this.x = (wide - this.width * this.scale) / 2;
    this.y = 36;
    this.draw();
  }

  /** As it opens: all of it where its text can be read then, else where it begins or differs. */
  begin() {
    this.fit();
    const differs = this.boxes.find((b) => b.node.mark);
    const first = differs || this.boxes.find((b) => b.node.opcode !== "parameter") || this.boxes[0];
    if (this.scale >= READABLE || !first) return;
    this.scale = READABLE;
    const wide = this.canvas.clientWidth, rest = wide - 40 - this.width * this.scale;
    const x = wide / 2 - (first.x + first.width / 2) * this.scale;
    this.x = rest > 0 ? 20 + rest / 2 : Math.min(20, Math.max(20 + rest, x)); // no empty margins
    this.y = Math.min(36, this.canvas.clientHeight / 3 - first.y * this.scale);
    this.draw();
  }

  goTo(path) {
    this.openAround(path);
    const box = this.byPath.get(path);
    if (!box) return;
    this.selected = path;
    this.scale = Math.max(this.scale, 0.7);
    this.x = this.canvas.clientWidth / 2 - (box.x + box.width / 2) * this.scale;
    this.y = this.canvas.clientHeight / 2 - (box.y + BOX.height) * this.scale;
    this.page.show(this, box);
    this.draw();
  }

  /** Opens the calls that a path lies in. */
  openAround(path) {
    let changed = false;
    for (const match of path.matchAll(/\.\d+\//g)) {
      const outer = path.slice(0, match.index);
      changed = changed || !this.open.has(outer);
      this.open.add(outer);
    }
    if (changed) this.place();
  }

  toggle(box) {
    if (!box.node.calls) return;
    const before = [box.x * this.scale + this.x, box.y * this.scale + this.y];
    if (!this.open.delete(box.path)) this.open.add(box.path);
    this.place();
    const now = this.byPath.get(box.path);
    this.x = before[0] - now.x * this.scale;
    this.y = before[1] - now.y * this.scale;
    this.draw();
  }

  setAll(isOpen) {
    this.open.clear();
    for (let round = 0; isOpen && round < 12; round++) {
      const closed = this.boxes.filter((b) => b.node.calls && !b.isOpen);
      if (!closed.length || this.boxes.length > 30000) break;
      closed.forEach((b) => this.open.add(b.path));
      this.place();
    }
    this.place();
    this.fit();
  }

  boxAt(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = (event.clientX - area.left - this.x) / this.scale;
    const y = (event.clientY - area.top - this.y) / this.scale;
    const hit = (b) => x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height;
    return this.boxes.findLast(hit) || null;
  }

  listen() {
    const canvas = this.canvas;
    let held = null, moved = false;
    canvas.addEventListener("pointerdown", (e) => {
      held = [e.clientX - this.x, e.clientY - this.y];
      moved = false;
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return;
      const to = [e.clientX - held[0], e.clientY - held[1]];
      moved = moved || Math.hypot(to[0] - this.x, to[1] - this.y) > 3;
      if (moved) [this.x, this.y] = to;
      this.draw();
    });
    canvas.addEventListener("pointerup", (e) => {
      held = null;
      if (!moved) this.select(this.boxAt(e));
    });
    canvas.addEventListener("dblclick", (e) => {
      const box = this.boxAt(e);
      if (box) this.toggle(box);
    });
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY / 400), e);
    }, { passive: false });
  }

  zoom(factor, event) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left, y = event.clientY - area.top;
    const scale = Math.min(4, Math.max(0.01, this.scale * factor));
    this.x = x - (x - this.x) * (scale / this.scale);
    this.y = y - (y - this.y) * (scale / this.scale);
    this.scale = scale;
    this.draw();
  }

  select(box) {
    this.selected = box ? box.path : null;
    this.page.show(this, box);
    this.draw();
  }

  search(text) {
    this.found = new Set();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      for (const { path, node } of this.reachable()) {
        const all = [node.name, node.opcode, node.shape, node.op, node.source, node.device,
                     node.fusion];
        const line = all.filter(Boolean).join(" ").toLowerCase();
        if (words.every((word) => line.includes(word))) this.found.add(path);
      }
    }
    this.draw();
    return [...this.found];
  }

  /** Every node with the path by which it is reached first. */
  *reachable() {
    const pending = [[this.data.entry, ""]], seen = new Set([this.data.entry]);
    while (pending.length) {
      const [number, path] = pending.shift();
      for (const [item, node] of this.data.computations[number].nodes.entries()) {
        const at = `${path}/${number}:${item}`;
        yield { path: at, node };
        for (const [place, called] of (node.calls || []).entries()) {
          if (seen.has(called)) continue;
          seen.add(called);
          pending.push([called, `${at}.${place}`]);
        }
      }
    }
  }

  neighbours(box) {
    const prefix = box.path.slice(0, box.path.lastIndexOf(":") + 1);
    const computation = this.data.computations[box.computation];
    const pick = (from, to) => computation.edges
      .filter((edge) => edge[to] === box.item)
      .map((edge) => ({ path: prefix + edge[from], node: computation.nodes[edge[from]] }));
    return { operands: pick(0, 1), users: pick(1, 0) };
  }

  // Drawing

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1;
    const wide = canvas.clientWidth, high = canvas.clientHeight;
    if (canvas.width !== wide * ratio || canvas.height !== high * ratio) {
      canvas.width = wide * ratio;
      canvas.height = high * ratio;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.translate(this.x, this.y);
    pen.scale(this.scale, this.scale);
    const seen = {
      left: -this.x / this.scale, top: -this.y / this.scale,
      right: (wide - this.x) / this.scale, bottom: (high - this.y) / this.scale,
    };
    const deepest = this.boxes.length ? this.boxes[this.boxes.length - 1].depth : 0;
    for (let depth = 0; depth <= deepest; depth++) {
      this.paintEdges(pen, seen, depth);
      for (const box of this.boxes) if (box.depth === depth) this.paintBox(pen, seen, box);
    }
  }

  paintEdges(pen, seen, depth) {
    const thin = 1 / Math.sqrt(Math.max(this.scale, 0.05));
    const near = [];
    pen.beginPath(); // one path for all: many strokes take long
    for (const edge of this.edges) {
      if (edge.depth !== depth || edge.bottom < seen.top || edge.top > seen.bottom) continue;
      if (edge.right < seen.left || edge.left > seen.right) continue;
      if (edge.from === this.selected || edge.to === this.selected) near.push(edge);
      else this.traceEdge(pen, edge);
    }
    pen.strokeStyle = "#adb5bd";
    pen.lineWidth = thin;
    pen.stroke();
    pen.beginPath();
    near.forEach((edge) => this.traceEdge(pen, edge));
    pen.strokeStyle = "#1971c2";
    pen.lineWidth = 2.5 * thin;
    pen.stroke();
  }

  /** Curves, or lines where nobody could tell. */
  traceEdge(pen, edge) {
    pen.moveTo(...edge.points[0]);
    for (let i = 1; i < edge.points.length; i++) {
      const [ax, ay] = edge.points[i - 1], [bx, by] = edge.points[i], middle = (ay + by) / 2;
      if (this.scale < FEWEST_CURVES) pen.lineTo(bx, by);
      else pen.bezierCurveTo(ax, middle, bx, middle, bx, by);
    }
  }

  paintBox(pen, seen, box) {
    if (box.x > seen.right || box.x + box.width < seen.left) return;
    if (box.y > seen.bottom || box.y + box.height < seen.top) return;
    const node = box.node;
    pen.fillStyle = box.isOpen ? "#f8f9fa" : this.page.colour(this, node);
    pen.strokeStyle = box.path === this.selected ? "#1971c2" : "#495057";
    if (this.found.has(box.path)) pen.strokeStyle = "#d6336c";
    const strong = box.path === this.selected || this.found.has(box.path);
    pen.lineWidth = strong ? 4 : node.root ? 2.5 : 1;
    if (this.scale < FEWEST_CURVES) {
      const grown = Math.max(0, 3 / this.scale - box.height); // or nobody would see it
      const area = [box.x, box.y - grown / 2, box.width + grown, box.height + grown];
      pen.fillRect(...area);
      if (box.isOpen) this.paintHead(pen, box, 0);
      pen.lineWidth = (strong ? 2 : 0.5) / this.scale;
      if (strong || this.boxes.length < MOST_BORDERS) pen.strokeRect(...area);
      return;
    }
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.width, box.height, 6);
    pen.fill();
    if (box.isOpen) this.paintHead(pen, box, 6);
    pen.stroke();
    if (this.scale >= FEWEST_PIXELS) this.paintText(pen, box);
  }

  /** What is open keeps its colour at the top; leaves the outline as the path. */
  paintHead(pen, box, radius) {
    pen.fillStyle = this.page.colour(this, box.node);
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.width, BOX.header - 6, [radius, radius, 0, 0]);
    pen.fill();
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.width, box.height, radius);
  }

  paintText(pen, box) {
    const node = box.node, middle = box.x + 8;
    const sign = node.calls ? (box.isOpen ? "▾ " : "▸ ") : "";
    pen.fillStyle = "#212529";
    pen.font = "bold 12px system-ui, sans-serif";
    pen.fillText(clipped(pen, sign + node.opcode + given(node), box.width - 16), middle, box.y + 15);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = "#343a40";
    if (box.isOpen) {
      pen.fillText(clipped(pen, `${node.name}  ${node.shape}`, box.width - 16), middle, box.y + 27);
      return;
    }
    pen.fillText(clipped(pen, node.name, box.width - 16), middle, box.y + 28);
    pen.fillText(clipped(pen, node.shape, box.width - 16), middle, box.y + 41);
  }
}

function microseconds(seconds) {
  return `${(seconds * 1e6).toLocaleString(undefined, { maximumSignificantDigits: 3 })} us`;
}

/** Constants that a node is given. */
function given(node) {
  const values = (node.given || []).filter(Boolean);
  return values.length ? ` (${values.join(", ")})` : "";
}

function clipped(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = Math.floor((text.length * width) / pen.measureText(text).width);
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

/** Toolbar, list of what was found, and facts of what is selected. */
class Page {
  constructor(programs, colour) {
    this.mode = "opcode";
    this.panes = document.getElementById("panes");
    this.views = programs.map((data) => this.addPane(data, programs.length > 1));
    this.modes(programs, colour);
    this.wire();
    window.addEventListener("resize", () => this.views.forEach((v) => v.draw()));
    this.views.forEach((v) => v.begin());
  }

  addPane(data, isOneOfSeveral) {
    const pane = document.createElement("div");
    pane.className = "pane";
    const title = document.createElement("div");
    title.className = "title";
    const count = data.computations.reduce((sum, c) => sum + c.nodes.length, 0);
    title.textContent = `${data.title || data.module}: ${count.toLocaleString()} instructions`;
    if (isOneOfSeveral) pane.append(title);
    else document.getElementById("title").textContent = title.textContent;
    const canvas = document.createElement("canvas");
    pane.append(canvas);
    this.panes.append(pane);
    return new View(data, canvas, this);
  }

  modes(programs, wanted) {
    const nodes = programs.flatMap((p) => p.computations.flatMap((c) => c.nodes));
    const known = { opcode: "family", time: "time", flops: "flops", bytes: "bytes",
                    device: "device", fusion: "fusion", difference: "mark" };
    const choice = document.getElementById("mode");
    this.most = {};
    for (const [mode, key] of Object.entries(known)) {
      const values = nodes.map((n) => n[key]).filter(Boolean);
      if (!values.length) continue;
      choice.add(new Option(mode, mode));
      if (typeof values[0] === "number") this.most[mode] = values.reduce((a, b) => Math.max(a, b), 0);
      if (mode === "difference" || mode === "time") this.mode = choice.value = mode;
    }
    const offered = [...choice.options].map((option) => option.value);
    if (offered.includes(wanted)) this.mode = choice.value = wanted;
    const words = (key) => [...new Set(nodes.map((n) => n[key]).filter(Boolean))];
    this.words = { device: words("device").sort(), fusion: words("fusion") };
    this.families = new Map();
    for (const { family, colour } of nodes) {
      const others = this.families.get(colour) || new Set();
      this.families.set(colour, others.add(family));
    }
    this.legend();
  }

  /** Names with their colours, for what nodes are coloured by. */
  legendEntries() {
    if (this.mode === "difference") return Object.entries(MARKS);
    if (this.mode === "opcode") {
      return [...this.families].map(([colour, names]) => [[...names].sort().join(", "), colour]);
    }
    const words = this.words[this.mode];
    if (words) return words.map((word) => [word, this.colour(null, { [this.mode]: word })]);
    const most = this.most[this.mode];
    return [0, 0.1, 0.5, 1].map((share) => [
      this.mode === "time" ? microseconds(most * share) : Math.round(most * share).toLocaleString(),
      this.colour(null, { [this.mode]: most * share }),
    ]);
  }

  legend() {
    const list = document.getElementById("legend");
    const entries = this.legendEntries();
    const shown = entries.slice(0, LEGEND_SHOWN);
    const rest = entries.length - shown.length;
    if (rest > 0) shown.push([`and ${rest} more`, "transparent"]);
    list.replaceChildren(...shown.map(([name, colour]) => {
      const item = document.createElement("span");
      item.textContent = item.title = name;
      item.style.background = colour;
      return item;
    }));
  }

  wire() {
    const on = (id, kind, act) => document.getElementById(id).addEventListener(kind, act);
    on("mode", "change", (e) => {
      this.mode = e.target.value;
      this.legend();
      this.views.forEach((v) => v.draw());
    });
    on("fit", "click", () => this.views.forEach((v) => v.fit()));
    on("open", "click", () => this.views.forEach((v) => v.setAll(true)));
    on("close", "click", () => this.views.forEach((v) => v.setAll(false)));
    on("search", "input", (e) => this.search(e.target.value));
    on("search", "keydown", (e) => {
      if (e.key !== "Enter" || !this.results.length) return;
      this.current = (this.current + 1) % this.results.length;
      const [view, path] = this.results[this.current];
      view.goTo(path);
    });
  }

  search(text) {
    this.results = this.views.flatMap((view) => view.search(text).map((path) => [view, path]));
    this.current = -1;
    const list = document.getElementById("found");
    list.replaceChildren();
    document.getElementById("count").textContent = text.trim() ? `${this.results.length} found` : "";
    for (const [view, path] of this.results.slice(0, FOUND_SHOWN)) {
      list.append(this.link(view, path, nodeAt(view, path)));
    }
  }

  link(view, path, node) {
    const item = document.createElement("button");
    item.className = "link";
    item.textContent = `${node.name}  ${node.opcode}  ${node.shape}`;
    item.addEventListener("click", () => view.goTo(path));
    return item;
  }

  colour(view, node) {
    if (this.mode === "difference") return MARKS[node.mark] || "#f1f3f5";
    if (this.words[this.mode]) {
      const at = this.words[this.mode].indexOf(node[this.mode]);
      return at < 0 ? "#ffffff" : `hsl(${(40 + at * 137.5) % 360} 70% ${86 - (at % 3) * 6}%)`;
    }
    if (this.mode === "opcode") return node.colour || "#ffffff";
    const share = (node[this.mode] || 0) / (this.most[this.mode] || 1);
    return share ? `hsl(${50 - 45 * Math.sqrt(share)} 95% ${92 - 32 * Math.sqrt(share)}%)` : "#ffffff";
  }

  show(view, box) {
    const panel = document.getElementById("facts");
    panel.replaceChildren();
    if (!box) return;
    const node = box.node;
    const heading = document.createElement("h2");
    heading.textContent = `${node.opcode} ${node.name}`;
    const code = document.createElement("pre");
    code.textContent = node.text;
    panel.append(heading, this.table(node), code);
    const near = view.neighbours(box);
    for (const [word, others] of Object.entries(near)) this.list(panel, view, word, others);
    const called = (node.calls || []).map((c) => view.data.computations[c].name);
    if (called.length) {
      const button = document.createElement("button");
      button.textContent = `${box.isOpen ? "close" : "open"} ${called.join(", ")}`;
      button.id = "toggle";
      button.addEventListener("click", () => {
        view.toggle(view.byPath.get(box.path));
        this.show(view, view.byPath.get(box.path));
      });
      panel.append(button);
    }
  }

  table(node) {
    const facts = {
      shape: node.shape, layout: node.layout, operation: node.op, type: node.type,
      source: node.source, device: node.device, kernel: node.fusion,
      constants: (node.given || []).filter(Boolean).join(", "), difference: node.mark,
      iterations: node.iterations > 1 ? node.iterations : "", flops: node.flops, bytes: node.bytes,
      time: node.runs ? `${microseconds(node.time)} in ${node.runs} run${node.runs > 1 ? "s" : ""}` : "",
    };
    const table = document.createElement("table");
    for (const [name, value] of Object.entries(facts)) {
      if (!value) continue;
      const row = table.insertRow();
      row.insertCell().textContent = name;
      row.insertCell().textContent = typeof value === "number" ? value.toLocaleString() : value;
    }
    return table;
  }

  list(panel, view, word, others) {
    if (!others.length) return;
    const heading = document.createElement("h3");
    heading.textContent = word;
    panel.append(heading, ...others.map((o) => this.link(view, o.path, o.node)));
  }
}

function nodeAt(view, path) {
  const [number, item] = path.slice(path.lastIndexOf("/") + 1).split(":").map(Number);
  return view.data.computations[number].nodes[item];
}

const DATA = JSON.parse(document.getElementById("data").textContent);
window.page = new Page(DATA.programs, DATA.colour);
