"""Reports of real fits in a real browser: no two texts of a drawing touch, and none leaves its card."""

import pytest

from report_tables import TABLES, write_reports

WIDTHS = (1200, 700, 390, 320)
FAULTS = """() => {
  const faults = [];
  for (const chart of document.querySelectorAll('svg.chart')) {
    if (!chart.getBoundingClientRect().width) continue;
    const card = (chart.closest('.card, figure, td') ?? document.body).getBoundingClientRect();
    const name = chart.getAttribute('aria-label');
    const boxes = [...chart.querySelectorAll('text')]
      .map((text) => ({ box: text.getBoundingClientRect(), text: text.firstChild?.textContent ?? '' }))
      .filter(({ box, text }) => box.width && text.trim());
    boxes.forEach(({ box, text }, index) => {
      const sides = [card.left - box.left, box.right - card.right, card.top - box.top, box.bottom - card.bottom];
      if (Math.max(...sides) > 0.5) faults.push([name, text, 'leaves its card']);
      for (const other of boxes.slice(index + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        // boxes hold room for accents and tails that letters rarely fill
        if (across > 0.5 && down > 2.5) faults.push([name, text, other.text]);
      }
    });
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def reports(browser, tmp_path_factory):
    return write_reports(tmp_path_factory.mktemp("reports"))


@pytest.fixture
def open_page(browser, reports):
    contexts = []

    def opened(name, **options):
        contexts.append(browser.new_context(viewport={"width": 1200, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.goto((reports / f"{name}.html").as_uri())
        page.wait_for_load_state("load")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", TABLES)
def test_no_two_texts_of_a_drawing_touch_and_none_leaves_its_card(open_page, name):
    page = open_page(name)
    assert page.locator("svg.chart:visible").count() > 3
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate(FAULTS) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", TABLES)
def test_on_paper_and_without_a_script_no_two_texts_touch_either(open_page, name):
    page = open_page(name)
    page.set_viewport_size({"width": 690, "height": 900})  # the inside of a sheet of A4
    page.emulate_media(media="print")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(FAULTS) == []


def test_a_threshold_is_chosen_and_told_in_rows(open_page):
    page = open_page("census")
    says, told = page.locator("#threshold-says"), set()
    for value in ("0", "50", "100"):
        page.locator("#threshold").fill(value)
        told.add(says.inner_text())
    assert len(told) == 3 and all("sensitivity" in text for text in told)
    page.locator("#threshold").fill("0")
    assert "sensitivity 100 %, specificity 0 %" in says.inner_text()
    assert page.locator(".threshold-dot").is_visible()


def test_survival_is_read_at_a_chosen_time(open_page):
    page = open_page("patients")
    slider, says = page.locator("#time"), page.locator("#time-says")
    slider.fill("0")
    first = says.inner_text()
    slider.fill(slider.get_attribute("max"))
    assert first.startswith("At time ") and says.inner_text() != first
    page.locator("#grid .live").first.focus()
    assert "hazard ×" in page.locator("#grid .readout").first.inner_text()


def test_levels_are_put_by_effect_or_by_frequency_and_ordered_ones_stay(open_page):
    page = open_page("houses")
    rows = """(index) => {
        const card = document.querySelectorAll('#grid .card')[index];
        const labels = [...card.querySelectorAll('text.level')];
        const top = (label) => label.getBoundingClientRect().top;
        return labels.sort((a, b) => top(a) - top(b)).map((label) => label.textContent);
    }"""
    names = page.locator("#grid h3").all_inner_texts()
    free, ordered = (next(i for i, name in enumerate(names) if part in name) for part in ("MS_Sub", "Kitchen"))
    by_effect, before = page.evaluate(rows, free), page.evaluate(rows, ordered)
    page.locator("#levels").select_option("count")
    by_count = page.evaluate(rows, free)
    assert sorted(by_effect) == sorted(by_count) and by_effect != by_count
    assert [text.split(":")[0] for text in before] == [text.split(":")[0] for text in page.evaluate(rows, ordered)]
    page.locator("#levels").select_option("given")
    assert page.evaluate(rows, free) == by_effect


def test_a_skewed_axis_reads_out_what_the_curve_says(open_page):
    page = open_page("census")
    drawing = page.locator("#grid .card", has_text="capital_gain").locator(".live").first
    drawing.focus()
    page.keyboard.press("Home")
    low = drawing.get_attribute("aria-valuetext")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    middle = float(drawing.get_attribute("aria-valuetext").split(":")[0].replace("\u202f", ""))
    page.keyboard.press("End")
    high = float(drawing.get_attribute("aria-valuetext").split(":")[0].replace("\u202f", ""))
    assert low != middle and 0 < middle < 0.2 * high  # halfway along a straight axis it would be half
