// What a curve says at a place.

const effectAt = (feature, x, output) => {
  const { x: knots, effects } = feature;
  if (x < knots[0] || x > knots[knots.length - 1]) return null;
  let first = 0, last = knots.length - 1;
  while (last - first > 1) {
    const middle = (first + last) >> 1;
    if (knots[middle] <= x) first = middle;
    else last = middle;
  }
  const low = effects[first][output], high = effects[last][output];
  if (low === null || high === null) return null;
  const width = knots[last] - knots[first];
  return width > 0 ? low + ((x - knots[first]) / width) * (high - low) : low;
};
const countAt = (density, x) => {
  if (!density) return null;
  const { edges, counts } = density;
  for (let bin = 0; bin < counts.length; bin += 1)
    if (x >= edges[bin] && (x < edges[bin + 1] || bin === counts.length - 1) && x <= edges[bin + 1]) return counts[bin];
  return 0;
};
const effectWords = (effects) =>
  shown.map((output) => (shown.length > 1 ? data.outputs[output] + " " : "adds ") + signedWords(effects[output])).join(", ");
