// What is drawn, and how large.

const SVG = document.querySelector("svg")?.namespaceURI; // the parser knows it; the file then holds no address at all
const TOP = 10, PLOT = 160, STRIP = 24, LEFT = 52, RIGHT = 10, GUTTER = 58;
const ROW = 22, NAMES = 118, COUNTS = 52, COLOURS = 5, STEPS = 60, DEEPEST = 1e-4, LETTER = 6.8;
const MARKS = [
  "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
  "m-3.5 -3.5h7v7h-7z",
  "m0 -4.5l4.5 8h-9z",
  "m0 -5l5 5l-5 5l-5 -5z",
  "m-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
];
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const finite = (values) => values.filter((value) => value !== null && Number.isFinite(value));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
let shown = data.shown;
let shared = null;
