// The page: theme, search, order, outputs.

const start = () => {
  document.documentElement.classList.add("js");
  const theme = byId("theme");
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (preferred.matches ? "dark" : "light")) === "dark";
  const tellTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    tellTheme();
  });
  preferred.addEventListener("change", tellTheme);
  tellTheme();
  const grid = byId("grid");
  if (grid) startShapes(grid, [...grid.children].map((article) => new Card(article)));
};

const startShapes = (grid, cards) => {
  const search = byId("search"), order = byId("order"), output = byId("output"), same = byId("same");
  const drawAll = () => {
    shared = same.checked ? rangeOf(data.features.flatMap(effectsOf), 0.06) : null;
    cards.forEach((card) => { card.rest(); card.draw(); });
  };
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let found = 0;
    for (const card of cards) {
      card.article.hidden = !card.feature.name.toLowerCase().includes(wanted);
      found += card.article.hidden ? 0 : 1;
    }
    byId("found").textContent = `${found} of ${cards.length} shown`;
    byId("nothing").hidden = found > 0;
  };
  const orders = {
    importance: (a, b) => b.feature.importance - a.feature.importance,
    name: (a, b) => a.feature.name.localeCompare(b.feature.name),
    entry: (a, b) => (a.feature.entry ?? Infinity) - (b.feature.entry ?? Infinity) || 0,
  };
  search.addEventListener("input", filter);
  order.addEventListener("change", () => grid.append(...[...cards].sort(orders[order.value]).map((card) => card.article)));
  same.addEventListener("change", drawAll);
  if (output) output.addEventListener("change", () => {
    shown = output.value === "shown" ? data.shown : [Number(output.value)];
    byId("legend").hidden = shown.length === 1;
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
  // a card that was hidden, or whose column became narrower, is drawn at its new width
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const card = cards.find((one) => one.place === target);
      if (target.clientWidth && target.clientWidth !== card.width) card.draw();
    }
  });
  drawAll();
  filter();
  cards.forEach((card) => widths.observe(card.place));
};

start();
