/**
 * A sparse additive model as plain JavaScript (an ES module): no package is needed.
 *
 * A row is an object or a Map from the name of a column to its cell; columns that are not in `columns` need not be
 * given. A cell is
 *
 * - of kind "number": a number, a truth value or a text that writes a number;
 * - of kind "date": a Date, a text such as "2024-01-31" or "2024-01-31T12:30:00+01:00" (without a zone it is taken to
 *   be in universal time), or days since 1970-01-01;
 * - of kind "duration": seconds;
 * - of kind "category": a text, a number or a truth value; one that is no known level counts as unknown;
 * - missing: null, NaN, or one of the texts `missingTexts`.
 *
 * `score(row)` is the sum of all effects and the intercept, `effects(row)` its parts, `predict(row)` the prediction. An
 * infinite number gives NaN, and no class.
 */

export const writtenBy = @@WRITTEN_BY@@;
export const task = @@TASK@@;
export const outputs = @@OUTPUTS@@;
export const classes = @@CLASSES@@;
export const intercept = @@ONE_OR_ALL@@;
export const missingTexts = @@MISSING_TEXTS@@;
const LINK = @@LINK@@;
const INTERCEPT = @@INTERCEPT@@;
const MISSING = new Set(missingTexts);
// name, kind, codes of levels by text and by number, codes of false and true
const COLUMNS = @@COLUMNS@@.map(([name, kind, texts, numbers, truths]) => {
  return [name, kind, new Map(texts), new Map(numbers), truths];
});
// a curve: column, knots, [anchor, slopes, bases] of each piece, what a missing number adds
// a level or a cell's being missing: column, nothing, values by code, what an unknown one adds
const TERMS = @@TERMS@@;
// name, two sides [column, what is read, nodes], values at nodes, the last where a side is not known
const PAIRS = @@PAIRS@@;
// time, cumulative hazard up to it
const BASELINE = @@BASELINE@@;

/** The columns that the model reads: name and kind. */
export const columns = COLUMNS.map(([name, kind]) => ({ name, kind }));

const BLANKS = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const OUTER_BLANKS = new RegExp(`^${BLANKS}|${BLANKS}$`, "g");
const SEPARATORS = /[\x1c-\x1f]/; // blanks about words, not about numbers
const DECIMAL = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const ENDLESS = /^([+-]?)inf(?:inity)?$/i;
const LEADING_ZERO = /^[+-]?0[0-9]/;
const clock = (colon) => `(\\d{2})(?:(:?)(\\d{2})(?:\\${colon}(\\d{2})(?:[.,](\\d+))?)?)?`;
const MOMENT = new RegExp(`^(\\d{4})-(\\d{2})-(\\d{2})(?:\\D${clock(5)}(?:Z|([+-])${clock(11)})?)?$`, "u");
const DAY = 86400000;
const EXPECTED = {
  number: "a number",
  date: "a Date, a text such as 2024-01-31, or days since 1970-01-01",
  duration: "seconds",
  category: "a text, a number or a truth value",
};

/** Return the score of a row: a number, or an array where the model has several outputs. */
export function score(row) {
  return oneOrAll(scoresOf(read(row)));
}

/** Return the prediction: the mean, the most probable class, 0 or 1 for each label, or the log hazard ratio. */
export function predict(row) {
  const scores = scoresOf(read(row));
  if (task === "survival") return scores[0];
  const means = meansOf(scores);
  if (task === "regression") return oneOrAll(means);
  if (means.some(Number.isNaN)) return null;
  if (task === "labels") return means.map((mean) => (mean > 0.5 ? 1 : 0));
  const shares = sharesOf(means);
  return classes[shares.indexOf(Math.max(...shares))];
}

/** Return the probability of each of `classes`, in their order. */
export function probabilities(row) {
  if (task !== "classes" && task !== "labels") {
    throw new TypeError(`probabilities: expected a model of classes, got one of ${task}`);
  }
  return sharesOf(meansOf(scoresOf(read(row))));
}

/**
 * Return what each column and each pair adds: a Map; with `intercept` it sums up to the score. A pair's name is
 * "one × other", with a number after it where a column has that name.
 */
export function effects(row) {
  const result = new Map();
  for (const [name, added] of parts(read(row))) {
    const before = result.get(name);
    result.set(name, before === undefined ? added : before.map((value, output) => value + added[output]));
  }
  for (const [name, added] of result) result.set(name, oneOrAll(added));
  return result;
}

/** Return the probability that the event has not come by a time; the curve is constant after the last event. */
export function survival(row, time) {
  if (task !== "survival") throw new TypeError(`survival: expected a model of survival times, got one of ${task}`);
  let hazard = 0;
  for (const [moment, total] of BASELINE) if (moment <= time) hazard = total;
  return Math.exp(-hazard * Math.exp(Math.min(scoresOf(read(row))[0], 600)));
}

function oneOrAll(values) {
  return values.length === 1 ? values[0] : [...values];
}

function scoresOf(cells) {
  const totals = INTERCEPT.map(() => 0);
  for (const [, added] of parts(cells)) added.forEach((value, output) => (totals[output] += value));
  return totals.map((total, output) => total + INTERCEPT[output]);
}

/** Return the name of a column or pair and what a term of it adds, for all terms in the order of the sum. */
function parts(cells) {
  const result = [];
  for (const [kind, column, knots, pieces, absent] of TERMS) {
    const [value, missing] = cells[column];
    let added = absent;
    if (kind === "missing") added = pieces[missing ? 1 : 0];
    else if (kind === "level" && !Number.isNaN(value)) added = pieces[value];
    else if (Math.abs(value) === Infinity) added = INTERCEPT.map(() => NaN);
    else if (!Number.isNaN(value)) {
      const [anchor, slopes, bases] = pieces[notAbove(knots, value)];
      const across = value - anchor;
      added = slopes.map((slope, output) => slope * across + bases[output]);
    }
    result.push([COLUMNS[column][0], added]);
  }
  for (const [name, one, other, values] of PAIRS) {
    const [i, k, u] = place(cells, ...one);
    const [j, m, v] = place(cells, ...other);
    const added = INTERCEPT.map((_, o) => {
      const low = (1 - v) * values[i][j][o] + v * values[i][m][o];
      const high = (1 - v) * values[k][j][o] + v * values[k][m][o];
      return (1 - u) * low + u * high;
    });
    result.push([name, added]);
  }
  return result;
}

/** Return how many knots are not above a number. */
function notAbove(knots, value) {
  let low = 0;
  let high = knots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (knots[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the two nodes about a cell and the share of the second. */
function place(cells, column, reads, knots) {
  const [found, missing] = cells[column];
  const value = reads === "missing" ? Number(missing) : found;
  if (Number.isNaN(value)) return [knots.length, knots.length, 0];
  if (Math.abs(value) === Infinity) return [0, 0, NaN];
  const inside = Math.min(Math.max(value, knots[0]), knots[knots.length - 1]);
  const node = Math.min(notAbove(knots, inside) - 1, knots.length - 2);
  return [node, node + 1, (inside - knots[node]) / (knots[node + 1] - knots[node])];
}

function meansOf(scores) {
  if (LINK === "log") return scores.map((value) => Math.exp(Math.min(value, 600)));
  if (LINK === "logit") return scores.map((value) => 0.5 * (1 + Math.tanh(0.5 * value)));
  if (LINK !== "softmax") return scores;
  const highest = Math.max(...scores);
  const powers = scores.map((value) => Math.exp(value - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

function sharesOf(means) {
  return task === "classes" && means.length === 1 ? [1 - means[0], means[0]] : means;
}

/** Return a pair for each column: its number or code, NaN where that is not known, and whether the cell is missing. */
function read(row) {
  return COLUMNS.map(([name, kind, texts, numbers, truths]) => {
    const cell = row instanceof Map ? row.get(name) : Object.hasOwn(row, name) ? row[name] : undefined;
    if (cell === undefined) {
      const shown = JSON.stringify(name);
      throw new TypeError(`column ${shown}: expected a cell, got a row without it; give null if it is missing`);
    }
    if (isMissing(cell)) return [NaN, true];
    const value = kind === "category" ? codeOf(cell, texts, numbers, truths) : numberOf(cell, kind);
    if (value === undefined) {
      const got = `${String(typeof cell === "string" ? JSON.stringify(cell) : cell).slice(0, 60)} (${typeof cell})`;
      throw new TypeError(`column ${JSON.stringify(name)}: expected ${EXPECTED[kind]}, got ${got}`);
    }
    return [value, false];
  });
}

function isMissing(cell) {
  return cell === null || Number.isNaN(cell) || (typeof cell === "string" && MISSING.has(stripped(cell)));
}

function stripped(text) {
  return text.replace(OUTER_BLANKS, "");
}

/** Return the number that a text writes, or undefined. */
function numberIn(text) {
  if (SEPARATORS.test(text)) return undefined;
  const bare = stripped(text);
  if (DECIMAL.test(bare)) return Number(bare);
  const endless = ENDLESS.exec(bare);
  if (endless !== null) return endless[1] === "-" ? -Infinity : Infinity;
  return /^[+-]nan$|^nan$/i.test(bare) ? NaN : undefined;
}

/** Return the code of a category's cell, NaN where it is no known level, undefined where it is no such cell. */
function codeOf(cell, texts, numbers, truths) {
  if (typeof cell === "boolean") return truths[cell ? 1 : 0] ?? NaN;
  if (typeof cell === "number") return numbers.get(cell) ?? NaN;
  if (typeof cell !== "string") return undefined;
  const number = LEADING_ZERO.test(stripped(cell)) ? undefined : numberIn(cell);
  return (Number.isFinite(number) ? numbers.get(number) : texts.get(typeof cell === "string" ? stripped(cell) : cell)) ?? NaN;
}

/** Return a cell as a number, days or seconds; undefined where it is no such cell. */
function numberOf(cell, kind) {
  if (typeof cell === "number") return cell;
  if (kind === "date") {
    if (cell instanceof Date) return Number.isNaN(cell.getTime()) ? undefined : cell.getTime() / DAY;
    return typeof cell === "string" ? daysIn(stripped(cell)) : undefined;
  }
  if (typeof cell === "boolean") return kind === "number" ? Number(cell) : undefined;
  return typeof cell === "string" ? numberIn(cell) : undefined;
}

/** Return the days since 1970-01-01 of an ISO 8601 text, or undefined. */
function daysIn(text) {
  const found = MOMENT.exec(text);
  if (found === null) return undefined;
  const number = (place) => Number(found[place] ?? 0);
  const [year, month, day] = [number(1), number(2), number(3)];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const time = 3600 * number(4) + 60 * number(6) + number(7);
  const away = 3600 * number(10) + 60 * number(12) + number(13);
  if (year < 1 || number(4) > 23 || number(6) > 59 || number(7) > 59 || away >= 86400) return undefined;
  const sign = found[9] === "-" ? -1 : 1;
  const seconds = date.getTime() / 1000 + time - sign * away;
  const micros = microsIn(found[8]) - sign * microsIn(found[14]);
  // far from 1970 a number holds no microseconds: whole seconds are divided as they are
  return micros === 0 ? seconds / 86400 : (seconds * 1e6 + micros) / (DAY * 1000);
}

/** Return the microseconds of the digits of a second; those beyond six are cut off. */
function microsIn(digits = "") {
  return Number(digits.slice(0, 6).padEnd(6, "0"));
}
