// One card: its drawing, its read-out, its zoom.

class Card {
  constructor(article) {
    this.article = article;
    this.place = article.querySelector(".shape");
    this.feature = data.features[Number(this.place.dataset.feature)];
    this.readOut = article.querySelector(".readout");
    this.button = article.querySelector(".reset");
    this.cursor = null;
    this.svg = node("svg", { class: "chart live", role: "slider", tabindex: "0", "aria-valuemin": 0 });
    this.svg.setAttribute("aria-label", "Effect of " + this.feature.name + ": arrow keys move");
    this.place.append(this.svg);
    if (!this.feature.bars) this.full = this.whole();
    this.range = this.full;
    this.listen();
    this.rest();
  }

  whole() {
    const { x } = this.feature;
    const low = x[0], high = x[x.length - 1];
    return high > low ? [low, high] : [low - 0.5, high + 0.5];
  }

  draw() {
    const width = Math.max(this.place.clientWidth, 240);
    this.svg.replaceChildren();
    if (this.feature.bars) this.drawBars(width);
    else this.drawCurve(width);
    this.drawCursor();
  }

  size(width, height) {
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  drawCurve(width) {
    const { feature, svg } = this;
    const bottom = TOP + PLOT;
    const right = width - RIGHT - (feature.missing ? GUTTER : 0);
    this.size(width, bottom + STRIP + 26);
    const [low, high] = this.range;
    this.across = scale(low, high, LEFT, right);
    const whole = low === this.full[0] && high === this.full[1];
    const inside = whole ? effectsOf(feature) : this.visible();
    const height = shared && whole ? shared : rangeOf(inside, 0.06);
    this.upward = scale(height[0], height[1], bottom, TOP);
    for (const tick of this.upward.ticks(5)) {
      const y = this.upward(tick);
      svg.append(line(LEFT, y, width - RIGHT, y, tick === 0 ? "zero" : "rule"));
      svg.append(label(LEFT - 6, y + 4, numberWords(tick, 4), "end", "tick"));
    }
    this.drawStrip(bottom + 4, right);
    this.drawAcross(bottom + 4 + STRIP, right);
    shown.forEach((output, place) => svg.append(node("path", { d: this.outline(output), class: `line out-${place % COLOURS}` })));
    if (feature.missing) this.drawMissing(right, bottom);
  }

  drawAcross(y, right) {
    const words = (tick) => valueWords(tick, this.feature.kind, this.across.digits);
    for (const [tick, text, place] of spacedTicks(this.across, words, LEFT, right)) {
      const x = this.across(tick);
      this.svg.append(line(x, y, x, y + 4, "axis"), label(place, y + 16, text, "middle", "tick"));
    }
  }

  visible() {
    const [low, high] = this.range;
    const { x, effects } = this.feature;
    const values = [];
    for (const output of shown) {
      values.push(effectAt(this.feature, Math.max(low, x[0]), output), effectAt(this.feature, Math.min(high, x[x.length - 1]), output));
      x.forEach((knot, place) => { if (knot >= low && knot <= high) values.push(effects[place][output]); });
      if (this.feature.missing) values.push(this.feature.missing.effects[output]);
    }
    return values;
  }

  outline(output) {
    const { x, effects } = this.feature;
    const [low, high] = this.range;
    const points = [];
    const add = (at, effect) => points.push([at, effect]);
    if (low > x[0]) add(low, effectAt(this.feature, low, output));
    x.forEach((knot, place) => { if (knot >= low && knot <= high) add(knot, effects[place][output]); });
    if (high < x[x.length - 1]) add(high, effectAt(this.feature, high, output));
    let pen = "M", path = "";
    for (const [at, effect] of points) {
      if (effect === null) { pen = "M"; continue; }
      path += `${pen}${this.across(at).toFixed(1)} ${this.upward(effect).toFixed(1)}`;
      pen = "L";
    }
    return path;
  }

  drawStrip(top, right) {
    const { density } = this.feature;
    this.svg.append(line(LEFT, top + STRIP, right, top + STRIP, "axis"));
    if (!density) return;
    const most = Math.max(1, ...density.counts);
    density.counts.forEach((count, bin) => {
      const [x1, x2] = [density.edges[bin], density.edges[bin + 1]].map((edge) => clamp(this.across(edge), LEFT, right));
      if (!count || x2 <= x1) return;
      const height = (STRIP * count) / most;
      this.svg.append(node("rect", { x: x1, y: top + STRIP - height, width: Math.max(x2 - x1 - 0.5, 0.5), height, class: "density" }));
    });
  }

  drawMissing(right, bottom) {
    const { missing } = this.feature;
    this.gap = right + 8 + (GUTTER - 8) / 2;
    this.svg.append(line(right + 4, TOP, right + 4, bottom + STRIP, "divider"));
    shown.forEach((output, place) => {
      if (missing.effects[output] !== null) this.svg.append(mark(this.gap, this.upward(missing.effects[output]), place));
    });
    this.svg.append(label(this.gap, bottom + 16, "missing", "middle", "tick"));
    this.svg.append(label(this.gap, bottom + 30, numberWords(missing.count, 7), "middle", "tick faint"));
  }

  drawBars(width) {
    const { bars } = this.feature;
    const { svg } = this;
    const bottom = TOP + 12 + ROW * bars.length;
    this.size(width, bottom + 22);
    const [low, high] = shared || rangeOf(effectsOf(this.feature), 0);
    this.across = scale(low, high, NAMES + 12, width - COUNTS - 8);
    svg.append(label(width - 4, TOP + 4, "rows", "end", "tick faint"));
    for (const tick of this.across.ticks(width < 380 ? 3 : 4)) {
      const x = this.across(tick);
      svg.append(line(x, TOP + 8, x, bottom, tick === 0 ? "zero" : "rule"));
      svg.append(label(x, bottom + 15, numberWords(tick, 4), "middle", "tick"));
    }
    bars.forEach((bar, place) => this.drawBar(bar, place, width));
  }

  drawBar(bar, place, width) {
    const middle = TOP + 12 + ROW * (place + 0.5);
    const name = label(NAMES - 4, middle + 4, shortened(bar.name, 16), "end", bar.missing ? "level faint" : "level");
    this.svg.append(name, label(width - 4, middle + 4, numberWords(bar.count, 7), "end", "tick faint"));
    shown.forEach((output, rank) => {
      const effect = bar.effects[output];
      if (effect === null) return;
      if (shown.length > 1) { this.svg.append(mark(this.across(effect), middle, rank)); return; }
      const [x1, x2] = [this.across(0), this.across(effect)].sort((a, b) => a - b);
      const kind = bar.missing ? "bar hollow" : "bar";
      this.svg.append(node("rect", { x: x1, y: middle - 7, width: Math.max(x2 - x1, 1.5), height: 14, class: kind }));
    });
  }

  // the read-out: a level's place, a value, or "missing"

  drawCursor() {
    this.svg.querySelectorAll(".cursor").forEach((old) => old.remove());
    if (this.cursor === null) return;
    if (this.feature.bars) {
      const y = TOP + 12 + ROW * this.cursor;
      this.svg.prepend(node("rect", { x: 0, y, width: this.width, height: ROW, class: "cursor band" }));
      return;
    }
    const gone = this.cursor === "missing";
    const x = gone ? this.gap : this.across(this.cursor);
    this.svg.append(line(x, TOP, x, TOP + PLOT + STRIP, "cursor hair"));
    shown.forEach((output, place) => {
      const effect = gone ? this.feature.missing.effects[output] : effectAt(this.feature, this.cursor, output);
      if (effect === null) return;
      const dot = node("circle", { cx: x, cy: this.upward(effect), r: 4.5, class: `cursor dot out-${place % COLOURS}` });
      this.svg.append(dot);
    });
  }

  read(cursor) {
    this.cursor = cursor;
    const { feature, svg } = this;
    let words, at, most;
    if (feature.bars) {
      const bar = feature.bars[cursor];
      words = `${bar.name}: ${effectWords(bar.effects)} · ${countWords(bar.count)}`;
      [at, most] = [cursor, feature.bars.length - 1];
    } else if (cursor === "missing") {
      words = `missing: ${effectWords(feature.missing.effects)} · ${countWords(feature.missing.count)}`;
      [at, most] = [STEPS + 1, STEPS + 1];
    } else {
      const effects = data.outputs.map((_, output) => effectAt(feature, cursor, output));
      const count = countAt(feature.density, cursor);
      words = `${valueWords(cursor, feature.kind, this.across.digits)}: ${effectWords(effects)}`;
      if (count !== null) words += ` · ${countWords(count)} near`;
      const [low, high] = this.range;
      [at, most] = [Math.round(((cursor - low) / (high - low)) * STEPS), STEPS + (feature.missing ? 1 : 0)];
    }
    this.readOut.textContent = words;
    svg.setAttribute("aria-valuemax", most);
    svg.setAttribute("aria-valuenow", at);
    svg.setAttribute("aria-valuetext", words);
    this.drawCursor();
  }

  rest() {
    this.cursor = null;
    this.readOut.textContent = "";
    this.svg.setAttribute("aria-valuemax", this.feature.bars ? this.feature.bars.length - 1 : STEPS);
    this.svg.setAttribute("aria-valuenow", 0);
    this.svg.setAttribute("aria-valuetext", "not read yet");
    this.drawCursor();
  }

  // ---- pointer, wheel and keys

  placeOf(event) {
    const box = this.svg.getBoundingClientRect();
    const ratio = this.width / box.width;
    return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
  }

  point(event) {
    const [x, y] = this.placeOf(event);
    if (this.feature.bars) {
      this.read(clamp(Math.floor((y - TOP - 12) / ROW), 0, this.feature.bars.length - 1));
    } else if (this.feature.missing && x > this.across(this.range[1]) + 4) {
      this.read("missing");
    } else {
      this.read(clamp(this.across.back(x), this.range[0], this.range[1]));
    }
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
    this.button.addEventListener("click", () => { this.zoom(this.full); svg.focus(); });
  }

  first() {
    return this.feature.bars ? 0 : (this.range[0] + this.range[1]) / 2;
  }

  hold(event) {
    this.point(event);
    if (this.feature.bars || event.pointerType !== "mouse" || event.button !== 0) return;
    this.held = this.placeOf(event)[0];
    this.svg.setPointerCapture(event.pointerId);
  }

  drag(event) {
    this.svg.querySelectorAll(".drag").forEach((old) => old.remove());
    const [x1, x2] = this.dragged(event);
    this.svg.append(node("rect", { x: x1, y: TOP, width: x2 - x1, height: PLOT + STRIP, class: "drag" }));
  }

  dragged(event) {
    const right = this.across(this.range[1]);
    return [this.held, this.placeOf(event)[0]].map((x) => clamp(x, LEFT, right)).sort((a, b) => a - b);
  }

  release(event) {
    if (this.held === undefined) return;
    const [x1, x2] = this.dragged(event);
    this.letGo();
    if (x2 - x1 > 8) this.zoom([this.across.back(x1), this.across.back(x2)]);
  }

  letGo() {
    this.held = undefined;
    this.svg.querySelectorAll(".drag").forEach((old) => old.remove());
  }

  wheel(event) {
    if (this.feature.bars || !(event.ctrlKey || event.metaKey)) return; // a plain wheel moves the page
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? 0.8 : 1.25, this.across.back(this.placeOf(event)[0]));
  }

  zoomBy(factor, around) {
    const [low, high] = this.range;
    const centre = clamp(around, low, high);
    this.zoom([centre - (centre - low) * factor, centre + (high - centre) * factor]);
  }

  zoom([low, high]) {
    const [first, last] = this.full;
    if (high - low < (last - first) * DEEPEST) return;
    this.range = [Math.max(low, first), Math.min(high, last)];
    const whole = this.range[0] === first && this.range[1] === last;
    this.button.hidden = whole;
    if (typeof this.cursor === "number") this.cursor = clamp(this.cursor, this.range[0], this.range[1]);
    this.draw();
    if (this.cursor !== null) this.read(this.cursor);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: -1, ArrowDown: this.feature.bars ? 1 : -1, ArrowRight: 1, ArrowUp: this.feature.bars ? -1 : 1, PageUp: -10, PageDown: 10 };
    const at = this.cursor === null ? this.first() : this.cursor;
    if (event.key in moves) this.read(this.moved(at, moves[event.key]));
    else if (event.key === "Home") this.read(this.feature.bars ? 0 : this.range[0]);
    else if (event.key === "End") this.read(this.feature.bars ? this.feature.bars.length - 1 : this.range[1]);
    else if (this.feature.bars) return;
    else if (event.key === "+" || event.key === "=") this.zoomBy(0.5, at === "missing" ? this.first() : at);
    else if (event.key === "-") this.zoomBy(2, at === "missing" ? this.first() : at);
    else if (event.key === "0" || event.key === "Escape") this.zoom(this.full);
    else return;
    event.preventDefault();
  }

  moved(at, steps) {
    if (this.feature.bars) return clamp(at + steps, 0, this.feature.bars.length - 1);
    const [low, high] = this.range;
    if (at === "missing") return steps < 0 ? high : at;
    if (at >= high && steps > 0 && this.feature.missing) return "missing";
    return clamp(at + (steps * (high - low)) / STEPS, low, high);
  }
}
