"use strict";
(() => {
// Python has drawn everything. This script moves what is drawn (cursor, zoom), hides and orders cards, and reads out.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const STEPS = 60; // of an arrow key along a curve
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const share = (value, { low, high }) => (value - low) / (high - low);
const percent = (part) => `${100 * part}%`;
const show = (element, shown) => element.toggleAttribute("hidden", !shown);
let choice = data.choices[0];
let same = false;

// ---- numbers as text

const numberText = (value, digits = 3) => {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const notation = size >= 1e12 || (size > 0 && size < 1e-4) ? "scientific" : "standard";
  const whole = size >= 10 ** digits - 0.5 || Number.isInteger(value);
  const rounding = whole && notation === "standard" ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return new Intl.NumberFormat("en", { notation, ...rounding }).format(value).replace(/,/g, size < 9999.5 ? "" : "\u202f").replace(/-/g, "−");
};
const signedText = (value) => (value > 0 ? "+" : "") + numberText(value);
const countText = (count) => numberText(count, 12) + (count === 1 ? " row" : " rows");
const dateText = (days) => {
  const moment = new Date(days * 86400000);
  return Number.isNaN(moment.getTime()) ? "day " + numberText(days, 7) : moment.toISOString().slice(0, 10);
};
const ratioText = (effect) => (data.ratios && effect !== null ? ` (hazard × ${numberText(Math.exp(effect))})` : "");
const effectText = (effects) =>
  choice.outputs.map((output) => (choice.outputs.length > 1 ? data.outputs[output] + " " : "adds ") + signedText(effects[output]) + ratioText(effects[output])).join(", ");

// ---- reading a curve between its points

const effectAt = ({ x, y }, at, output) => {
  if (at < x[0] || at > x[x.length - 1]) return null;
  let first = 0, last = x.length - 1;
  while (last - first > 1) {
    const middle = (first + last) >> 1;
    if (x[middle] <= at) first = middle;
    else last = middle;
  }
  const low = y[first][output], high = y[last][output], width = x[last] - x[first];
  if (low === null || high === null) return null;
  return width > 0 ? low + ((at - x[first]) / width) * (high - low) : low;
};
const countAt = ({ edges, counts }, at) => {
  const bin = edges.findLastIndex((edge) => edge <= at);
  return bin < 0 || at > edges[counts.length] ? 0 : counts[Math.min(bin, counts.length - 1)];
};
const rangeOf = (values) => {
  const all = values.filter((value) => value !== null);
  const low = Math.min(0, ...all), high = Math.max(0, ...all), extra = (high - low || 1) * data.margin;
  return { low: low - extra, high: high + extra };
};

// the most ticks that have room, of one level or of every second or third of a finer one, on the labels that Python drew
const moveTicks = (slots, levels, view, pixels, axis) => {
  const unit = pixels / (view.high - view.low);
  let ticks = [];
  for (let every = 1; every <= 3 && ticks.length < 2; every += 1) {
    for (const { gap, room, at, text } of levels) {
      if (every * gap * unit < (axis === "x" ? room : data.tick)) continue;
      const found = at.map((value, index) => [value, text[index]]).filter(([value], index) => value >= view.low && value <= view.high && index % every === 0);
      if (found.length > ticks.length && found.length <= slots.length) ticks = found;
    }
  }
  slots.forEach((slot, index) => {
    show(slot, index < ticks.length);
    const [value, text] = ticks[index] ?? [0, ""];
    const part = share(value, view);
    slot.setAttribute(axis, percent(axis === "x" ? part : 1 - part));
    slot.lastElementChild.textContent = text;
    if (!slot.firstElementChild.classList.contains("axis")) slot.firstElementChild.setAttribute("class", value === 0 ? "zero" : "rule");
  });
};

class Card {
  constructor(article, feature) {
    this.article = article;
    this.feature = feature;
    this.svg = article.querySelector(".chart");
    this.readOut = article.querySelector(".readout");
    this.button = article.querySelector(".reset");
    const all = (selector) => [...this.svg.querySelectorAll(selector)];
    this.area = this.svg.querySelector(".area");
    this.stretched = all(".stretch");
    this.across = all(".across > .slot");
    this.upward = all(".upward > .slot");
    this.marks = all(".at");
    this.outputs = all("[data-output]");
    this.cursorMark = this.svg.querySelector(".cursor");
    this.dragMark = this.svg.querySelector(".drag");
    this.svg.classList.add("live");
    const slider = { role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-label": `Effect of ${feature.name}: arrow keys move` };
    for (const [key, value] of Object.entries(slider)) this.svg.setAttribute(key, value);
    const { unit } = feature; // of an axis that is straight near 0 and logarithmic beyond
    this.place = unit ? (value) => Math.sign(value) * Math.log1p(Math.abs(value) / unit) : (value) => value;
    this.valueOf = unit ? (place) => Math.sign(place) * Math.expm1(Math.abs(place)) * unit : (place) => place;
    this.places = feature.x?.map(this.place);
    this.given = feature.bars;
    this.rows = all(".row");
    this.range = this.full = feature.values;
    this.listen();
    this.rest();
  }

  // ---- what is in view

  draw() {
    const { feature } = this;
    const box = this.area.getBoundingClientRect();
    if (!box.width) return;
    const several = choice.outputs.length > 1;
    this.svg.classList.toggle("single", data.outputs.length > 1 && !several);
    for (const element of this.outputs) {
      const kind = feature.bars ? several === element.classList.contains("at") : true;
      show(element, kind && choice.outputs.includes(Number(element.dataset.output)));
    }
    const effects = feature.effects;
    this.height = same && this.isWhole() ? choice : rangeOf(this.visible());
    if (!same && this.isWhole() && !feature.bars && choice === data.choices[0]) this.height = effects; // a curve without rows may leave it
    const levels = same && this.isWhole() ? choice.levels : effects.levels;
    const start = share(this.height.low, effects), stop = share(this.height.high, effects);
    if (feature.bars) {
      this.stretched[0].setAttribute("viewBox", `${data.units * start} 0 ${data.units * (stop - start)} ${feature.bars.length || 1}`);
      for (const mark of this.marks) mark.setAttribute("x", percent(share(Number(mark.dataset.at), this.height)));
      moveTicks(this.across, levels, this.height, box.width, "x");
      return;
    }
    const left = data.units * share(this.range.low, this.full), width = data.units * share(this.range.high, this.full) - left;
    this.stretched[0].setAttribute("viewBox", `${left} ${data.units * (1 - stop)} ${width} ${data.units * (stop - start)}`);
    this.stretched[1]?.setAttribute("viewBox", `${left} 0 ${width} 1`);
    for (const mark of this.marks) mark.setAttribute("y", percent(1 - share(Number(mark.dataset.at), this.height)));
    moveTicks(this.across, this.full.levels, this.range, box.width, "x");
    moveTicks(this.upward, levels, this.height, box.height, "y");
    this.moveCursor();
  }

  effectAt(place, output) {
    const { x } = this.feature;
    return effectAt(this.feature, clamp(this.valueOf(place), x[0], x[x.length - 1]), output);
  }

  // levels in the order of their effects, of their rows, or as they were drawn; the missing cells stay last
  orderLevels(by) {
    const { given, feature } = this;
    if (!given || feature.fixed >= given.length) return;
    const output = choice.outputs[0], keys = { count: (bar) => -bar.count, effect: (bar) => bar.y[output] ?? Infinity };
    const free = given.slice(0, given.length - feature.fixed);
    if (by in keys) free.sort((a, b) => keys[by](a) - keys[by](b));
    feature.bars = [...free, ...given.slice(given.length - feature.fixed)];
    for (const row of this.rows) {
      const place = feature.bars.indexOf(given[Number(row.dataset.row)]);
      row.setAttribute("y", place * (row.closest(".stretch") ? 1 : data.row));
    }
    this.rest();
  }

  isWhole() {
    return this.range === this.full;
  }

  visible() {
    const { feature } = this;
    if (feature.bars) return feature.bars.flatMap((bar) => choice.outputs.map((output) => bar.y[output]).concat(feature.limits));
    const { low, high } = this.range, { y } = feature, x = this.places;
    const inside = y.filter((_, index) => x[index] >= low && x[index] <= high);
    const ends = [Math.max(low, x[0]), Math.min(high, x[x.length - 1])];
    return choice.outputs.flatMap((output) => [
      ...inside.map((effects) => effects[output]),
      ...ends.map((end) => this.effectAt(end, output)),
      ...(feature.missing ? [feature.missing.y[output]] : []),
      ...feature.limits.filter((_, index) => x[Math.min(index + 1, x.length - 1)] >= low && x[Math.max(index - 1, 0)] <= high).flat(),
    ]);
  }

  zoom(low, high) {
    const { full } = this;
    const least = Math.min(full.deepest, full.high - full.low) / 2, middle = clamp((low + high) / 2, full.low + least, full.high - least);
    const range = { low: Math.max(Math.min(low, middle - least), full.low), high: Math.min(Math.max(high, middle + least), full.high) };
    this.range = range.low <= full.low && range.high >= full.high ? full : range;
    show(this.button, !this.isWhole());
    if (typeof this.cursor === "number") this.cursor = clamp(this.cursor, this.range.low, this.range.high);
    this.draw();
    if (this.cursor !== null) this.read(this.cursor);
  }

  zoomBy(factor, around) {
    const { low, high } = this.range;
    const centre = clamp(around, low, high);
    this.zoom(centre - (centre - low) * factor, centre + (high - centre) * factor);
  }

  // ---- the read-out: of a level by its index, of a value, or of the missing cells

  read(cursor) {
    this.cursor = cursor;
    const { feature } = this;
    const bar = feature.bars ? feature.bars[cursor] : cursor === "missing" ? feature.missing : null;
    let text, at, most;
    if (bar) {
      text = `${bar.name}: ${effectText(bar.y)} · ${countText(bar.count)}`;
      [at, most] = feature.bars ? [cursor, feature.bars.length - 1] : [STEPS + 1, STEPS + 1];
    } else {
      const { low, high } = this.range;
      const digits = Math.max(4, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) + 3);
      const read = this.valueOf(cursor), value = feature.date ? dateText(read) : numberText(read, feature.unit ? 4 : digits);
      text = `${value}: ${effectText(data.outputs.map((_, output) => this.effectAt(cursor, output)))}`;
      if (feature.density) text += ` · ${countText(countAt(feature.density, read))} near`;
      [at, most] = [Math.round(share(cursor, this.range) * STEPS), STEPS + (feature.missing ? 1 : 0)];
    }
    this.say(text, text, at, most);
  }

  rest() {
    this.cursor = null;
    this.say("", "not read yet", 0, this.feature.bars ? this.feature.bars.length - 1 : STEPS);
  }

  say(text, spoken, at, most) {
    this.readOut.textContent = text;
    this.svg.setAttribute("aria-valuemax", most);
    this.svg.setAttribute("aria-valuenow", at);
    this.svg.setAttribute("aria-valuetext", spoken);
    this.moveCursor();
  }

  moveCursor() {
    const { cursor, feature, cursorMark } = this;
    show(cursorMark, cursor !== null);
    if (cursor === null || !this.height) return;
    if (feature.bars) {
      cursorMark.setAttribute("y", data.row * cursor);
      return;
    }
    const gone = cursor === "missing";
    const width = feature.missing ? data.share : 1;
    cursorMark.setAttribute("x", percent(gone ? data.gutter : width * share(cursor, this.range)));
    for (const dot of cursorMark.querySelectorAll("[data-output]")) {
      const output = Number(dot.dataset.output);
      const effect = gone ? feature.missing.y[output] : this.effectAt(cursor, output);
      show(dot, effect !== null && choice.outputs.includes(output));
      if (effect !== null) dot.setAttribute("y", percent(1 - share(effect, this.height)));
    }
  }

  // ---- pointer, wheel and keys

  shareOf(event) {
    const box = this.area.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  valueAt(part) {
    return this.range.low + clamp(part, 0, 1) * (this.range.high - this.range.low);
  }

  point(event) {
    const [across, down] = this.shareOf(event), { bars, missing } = this.feature;
    if (bars) this.read(clamp(Math.floor(down * bars.length), 0, bars.length - 1));
    else this.read(missing && across > 1 ? "missing" : this.valueAt(across));
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => { if (this.held === undefined) this.point(event); else this.drag(event); });
    svg.addEventListener("pointerleave", () => { if (this.held === undefined && document.activeElement !== svg) this.rest(); });
    svg.addEventListener("pointerdown", (event) => this.hold(event));
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointercancel", () => this.letGo());
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("focus", () => { if (this.cursor === null) this.read(this.first()); });
    svg.addEventListener("blur", () => this.rest());
    this.button.addEventListener("click", () => { this.reset(); svg.focus(); });
  }

  first() {
    return this.feature.bars ? 0 : this.valueAt(0.5);
  }

  reset() {
    if (!this.feature.bars) this.zoom(this.full.low, this.full.high);
  }

  hold(event) {
    this.point(event);
    if (this.feature.bars || event.pointerType !== "mouse" || event.button !== 0) return;
    this.held = this.shareOf(event)[0];
    this.svg.setPointerCapture(event.pointerId);
  }

  dragged(event) {
    return [this.held, this.shareOf(event)[0]].map((part) => clamp(part, 0, 1)).sort((a, b) => a - b);
  }

  drag(event) {
    const [start, stop] = this.dragged(event), width = this.feature.missing ? data.share : 1;
    show(this.dragMark, true);
    this.dragMark.setAttribute("x", percent(width * start));
    this.dragMark.setAttribute("width", percent(width * (stop - start)));
  }

  release(event) {
    if (this.held === undefined) return;
    const [start, stop] = this.dragged(event);
    this.letGo();
    if (stop - start > 0.02) this.zoom(this.valueAt(start), this.valueAt(stop));
  }

  letGo() {
    this.held = undefined;
    if (this.dragMark) show(this.dragMark, false);
  }

  wheel(event) {
    if (this.feature.bars || !(event.ctrlKey || event.metaKey)) return; // a plain wheel moves the page
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? 0.8 : 1.25, this.valueAt(this.shareOf(event)[0]));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { bars } = this.feature;
    const moves = { ArrowLeft: -1, ArrowDown: bars ? 1 : -1, ArrowRight: 1, ArrowUp: bars ? -1 : 1, PageUp: -10, PageDown: 10 };
    const at = this.cursor === null ? this.first() : this.cursor;
    const centre = at === "missing" ? this.valueAt(0.5) : at;
    if (event.key in moves) this.read(this.moved(at, moves[event.key]));
    else if (event.key === "Home") this.read(bars ? 0 : this.range.low);
    else if (event.key === "End") this.read(bars ? bars.length - 1 : this.range.high);
    else if (bars) return;
    else if (event.key === "+" || event.key === "=") this.zoomBy(0.5, centre);
    else if (event.key === "-") this.zoomBy(2, centre);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  moved(at, steps) {
    if (this.feature.bars) return clamp(at + steps, 0, this.feature.bars.length - 1);
    const { low, high } = this.range;
    if (at === "missing") return steps < 0 ? high : at;
    if (at >= high && steps > 0 && this.feature.missing) return "missing";
    return clamp(at + (steps * (high - low)) / STEPS, low, high);
  }
}

// ---- a map of two columns: one cell is read at a time

class PairMap {
  constructor(article, pair) {
    this.pair = pair;
    this.svg = article.querySelector(".chart");
    this.area = this.svg.querySelector(".area");
    this.mark = this.svg.querySelector(".cursor");
    this.layers = [...this.svg.querySelectorAll(".layer")];
    this.readOut = article.querySelector(".readout");
    this.summed = article.querySelector(".summed");
    this.output = article.querySelector(".of-output");
    this.svg.classList.add("live");
    const [rows, columns] = pair.axes.map((axis) => axis.spans.length);
    const slider = { role: "slider", tabindex: 0, "aria-valuemin": 1, "aria-valuemax": rows * columns, "aria-label": `Joint effect of ${pair.name}: arrow keys move` };
    for (const [key, value] of Object.entries(slider)) this.svg.setAttribute(key, value);
    this.sizes = [rows, columns];
    this.listen();
    this.rest();
    this.draw();
  }

  rank() {
    return this.output ? Number(this.output.value) : 0;
  }

  draw() {
    const surface = this.summed.checked ? "total" : "effect";
    for (const layer of this.layers) show(layer, Number(layer.dataset.rank) === this.rank() && layer.dataset.surface === surface);
    if (this.cursor) this.read(this.cursor);
  }

  text([row, column]) {
    const { axes, effect, mains, share: shares } = this.pair, rank = this.rank();
    const joint = effect[rank][row][column], alone = [mains[rank][0][row], mains[rank][1][column]];
    const where = `${axes[0].name} ${axes[0].texts[row]}, ${axes[1].name} ${axes[1].texts[column]}`;
    const parts = `together ${signedText(joint)} · alone ${signedText(alone[0])} and ${signedText(alone[1])} · sum ${signedText(joint + alone[0] + alone[1])}`;
    const rows = shares[row][column] > 0 ? `${numberText(100 * shares[row][column], 2)} % of the rows` : "no rows";
    return `${where}: ${parts} · ${rows}`;
  }

  read(cursor) {
    this.cursor = cursor;
    const text = this.text(cursor), [row, column] = cursor;
    const [[bottom, top], [left, right]] = [this.pair.axes[0].spans[row], this.pair.axes[1].spans[column]];
    const box = { x: left, y: 1 - top, width: right - left, height: top - bottom };
    for (const [key, value] of Object.entries(box)) this.mark.setAttribute(key, percent(value));
    show(this.mark, true);
    this.readOut.textContent = text;
    this.svg.setAttribute("aria-valuenow", row * this.sizes[1] + column + 1);
    this.svg.setAttribute("aria-valuetext", text);
  }

  rest() {
    this.cursor = null;
    show(this.mark, false);
    this.readOut.textContent = "";
    this.svg.setAttribute("aria-valuenow", 1);
    this.svg.setAttribute("aria-valuetext", "not read yet");
  }

  point(event) {
    const box = this.area.getBoundingClientRect();
    const parts = [1 - (event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
    this.read(parts.map((part, side) => {
      const { spans } = this.pair.axes[side];
      return Math.max(0, spans.findLastIndex(([start]) => start <= clamp(part, 0, 1)));
    }));
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => this.point(event));
    svg.addEventListener("pointerdown", (event) => this.point(event));
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) this.rest(); });
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("focus", () => { if (this.cursor === null) this.read(this.pair.first); });
    svg.addEventListener("blur", () => this.rest());
    this.summed.addEventListener("change", () => this.draw());
    this.output?.addEventListener("change", () => this.draw());
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = this.cursor ?? this.pair.first, [rows, columns] = this.sizes;
    const moves = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row + 1, column], ArrowDown: [row - 1, column],
      PageUp: [row + 10, column], PageDown: [row - 10, column], Home: [row, 0], End: [row, columns - 1],
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [up, across] = moves[event.key];
    this.read([clamp(up, 0, rows - 1), clamp(across, 0, columns - 1)]);
  }
}

// ---- the page: theme, search, order, outputs

const startTheme = () => {
  const root = document.documentElement, theme = byId("theme");
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (preferred.matches ? "dark" : "light")) === "dark";
  const update = () => { theme.textContent = isDark() ? "Use light colours" : "Use dark colours"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; update(); });
  preferred.addEventListener("change", update);
  update();
};

const startShapes = (grid) => {
  const cards = [...grid.children].map((article, index) => new Card(article, data.features[index]));
  const search = byId("search"), order = byId("order"), output = byId("output"), scale = byId("same");
  const drawAll = () => cards.forEach((card) => { card.rest(); card.draw(); });
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let found = 0;
    for (const card of cards) {
      card.article.hidden = !card.feature.name.toLowerCase().includes(wanted);
      found += card.article.hidden ? 0 : 1;
    }
    byId("found").textContent = `${found} of ${cards.length} shown`;
    show(byId("nothing"), found === 0);
  };
  const levels = byId("levels");
  levels?.addEventListener("change", () => cards.forEach((card) => card.orderLevels(levels.value)));
  const orders = {
    importance: (a, b) => b.feature.importance - a.feature.importance,
    name: (a, b) => a.feature.name.localeCompare(b.feature.name),
    entry: (a, b) => (a.feature.entry ?? Infinity) - (b.feature.entry ?? Infinity) || 0,
  };
  search.addEventListener("input", filter);
  order.addEventListener("change", () => grid.append(...[...cards].sort(orders[order.value]).map((card) => card.article)));
  scale.addEventListener("change", () => { same = scale.checked; drawAll(); });
  output?.addEventListener("change", () => {
    choice = data.choices[Number(output.value)];
    show(byId("legend"), choice.outputs.length > 1);
    drawAll();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === search) { search.value = ""; filter(); }
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
  window.addEventListener("hashchange", () => {
    const target = byId(window.location.hash.slice(1));
    if (!target || !target.hidden) return;
    search.value = "";
    filter();
    target.scrollIntoView();
  });
  window.addEventListener("beforeprint", () => cards.forEach((card) => card.reset())); // paper shows whole curves
  // a card that was hidden, or whose column became narrower, has room for other labels
  const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => cards.find((card) => card.svg === target).draw()));
  filter();
  cards.forEach((card) => { card.draw(); widths.observe(card.svg); });
};

// ---- a threshold and a time to choose

const shareText = (part) => `${numberText(100 * part, 2)} %`;
const startThreshold = (slider) => {
  const { of, rows, positive, thresholds } = data.performance, says = byId("threshold-says"), dot = document.querySelector(".threshold-dot");
  const negative = rows - positive;
  const update = () => {
    const index = Number(slider.value), right = thresholds.right[index], wrong = thresholds.wrong[index];
    says.textContent =
      `Probability of at least ${numberText(thresholds.at[index], 2)}: of ${countText(rows)}, ${right + wrong} are called ${of}, ` +
      `${right} of them rightly; ${positive - right} of ${positive} are missed and ${wrong} of ${negative} others called so ` +
      `(sensitivity ${shareText(right / (positive || 1))}, specificity ${shareText(1 - wrong / (negative || 1))}).`;
    show(dot, true);
    dot.setAttribute("x", percent(wrong / (negative || 1)));
    dot.setAttribute("y", percent(1 - right / (positive || 1)));
  };
  slider.addEventListener("input", update);
  update();
};
const startTime = (slider) => {
  const { times, hazard } = data.baseline, says = byId("time-says");
  const update = () => {
    const index = Number(slider.value), parts = [0.5, 1, 2].map((ratio) => shareText(Math.exp(-ratio * hazard[index])));
    says.textContent = `At time ${numberText(times[index], 4)}: ${parts[1]} of rows like the average one are without the event, ${parts[0]} at half and ${parts[2]} at twice its hazard.`;
  };
  slider.addEventListener("input", update);
  update();
};

// on a screen narrower than the labels were chosen for, those that would touch the one before are left out
const leaveOutTouching = (chart) => {
  const slots = [...chart.querySelectorAll(".across > .slot")];
  slots.forEach((slot) => show(slot, true));
  const boxes = slots.map((slot) => [slot, slot.querySelector("text").getBoundingClientRect()]).sort((a, b) => a[1].left - b[1].left);
  let end = -Infinity;
  for (const [slot, box] of boxes) {
    show(slot, box.left >= end);
    if (box.left >= end) end = box.right + 3;
  }
};

document.documentElement.classList.add("js");
startTheme();
const still = new ResizeObserver((entries) => entries.forEach(({ target }) => leaveOutTouching(target)));
document.querySelectorAll(".waterfall, .losses, .path, .map, .roc, .calibration, .residuals, .curves").forEach((chart) => still.observe(chart));
if (byId("threshold")) startThreshold(byId("threshold"));
if (byId("time")) startTime(byId("time"));
const grid = byId("grid");
if (grid) startShapes(grid);
const maps = byId("maps");
if (maps) [...maps.children].forEach((article, index) => new PairMap(article, data.pairs[index]));
})();
