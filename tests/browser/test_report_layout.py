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
