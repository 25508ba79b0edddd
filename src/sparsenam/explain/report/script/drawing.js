// Pieces of a drawing. All text goes in as text nodes and attributes, never as markup.

const node = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
};
const label = (x, y, text, anchor, name) => node("text", { x, y, "text-anchor": anchor, class: name }, text);
const line = (x1, y1, x2, y2, name) => node("line", { x1, y1, x2, y2, class: name });
const mark = (x, y, place) =>
  node("path", { d: `M${x.toFixed(1)} ${y.toFixed(1)}${MARKS[place % COLOURS]}`, class: `mark out-${place % COLOURS}` });

const scale = (low, high, start, stop) => {
  const at = (value) => start + ((value - low) / (high - low)) * (stop - start);
  at.back = (place) => low + ((place - start) / (stop - start)) * (high - low);
  at.ticks = (about) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / about));
    const spans = [1, 2, 5, 10].map((factor) => {
      const step = factor * power;
      return { step, first: Math.ceil(low / step - 1e-9), last: Math.floor(high / step + 1e-9) };
    });
    const distance = ({ first, last }) => Math.abs(last - first + 1 - about);
    const { step, first, last } = spans.reduce((best, span) => (distance(span) < distance(best) ? span : best));
    const decimals = clamp(1 - Math.floor(Math.log10(step)), 0, 100);
    const ticks = [];
    for (let count = first; count <= last; count += 1) ticks.push(Number((count * step).toFixed(decimals)));
    return ticks;
  };
  at.digits = Math.max(4, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) + 3);
  return at;
};
// as many ticks as fit: no two labels touch
const spacedTicks = (across, words, start, stop) => {
  let found = [];
  for (let about = 5; about > 0; about -= 1) {
    found = across.ticks(about).map((tick) => {
      const text = words(tick);
      const half = (LETTER * text.length) / 2;
      return [tick, text, clamp(across(tick), start - 20 + half, stop + 4 - half)];
    });
    const apart = found.every(([, text, x], place) =>
      place === 0 || x - found[place - 1][2] >= (LETTER * (text.length + found[place - 1][1].length)) / 2 + 6);
    if (apart) break;
  }
  return found;
};
const rangeOf = (values, margin) => {
  const all = finite(values);
  let low = Math.min(0, ...all), high = Math.max(0, ...all);
  if (high - low < 1e-300) [low, high] = [-0.5, 0.5];
  const extra = (high - low) * margin;
  return [low - extra, high + extra];
};
const effectsOf = (feature) => {
  const points = feature.bars ? feature.bars.map((bar) => bar.effects) : [...feature.effects];
  if (feature.missing) points.push(feature.missing.effects);
  return points.flatMap((effects) => shown.map((output) => effects[output]));
};
