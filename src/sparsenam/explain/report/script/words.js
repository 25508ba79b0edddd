// Numbers, dates and names in short words.

const numberWords = (value, digits = 3) => {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (size < 1e12 && (size >= 10 ** digits || Number.isInteger(value))) text = Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  else if (size !== 0 && (size < 1e-4 || size >= 1e12)) text = value.toExponential(digits - 1);
  else text = String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, "−");
};
const signedWords = (value) => (value > 0 ? "+" : "") + numberWords(value);
const countWords = (count) => numberWords(count, 7) + (count === 1 ? " row" : " rows");
const valueWords = (value, kind, digits = 5) => {
  if (kind !== "date") return numberWords(value, digits);
  const moment = new Date(value * 86400000);
  return Number.isNaN(moment.getTime()) ? "day " + numberWords(value, 7) : moment.toISOString().slice(0, 10);
};
const shortened = (text, most) => {
  const letters = Array.from(text);
  if (letters.length <= most) return text;
  const tail = Math.floor((most - 1) / 3);
  return letters.slice(0, most - 1 - tail).join("") + "…" + letters.slice(-tail).join("");
};
