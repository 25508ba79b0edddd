"""The report in a real browser: it opens quietly, can be read, searched and printed, and is not taken over."""

import pytest

from report_cases import HOSTILE, explanation, local_explanation
from sparsenam.explain.report import write_report
from sparsenam.explain.report.markup import clean


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    write_report(explanation(30), folder / "hostile.html", local_explanation())
    write_report(explanation(8, hostile=False), folder / "plain.html", local_explanation(hostile=False))
    write_report(explanation(6, 7, "classification"), folder / "classes.html", local_explanation(outputs=7))
    return folder


@pytest.fixture
def open_page(browser, reports):
    """Open a report; at the end nothing may have been said, asked or sent."""
    contexts, heard = [], []

    def opened(name="plain", **options):
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: heard.append(("console", message.text)))
        page.on("pageerror", lambda error: heard.append(("error", str(error))))
        page.on("dialog", lambda dialog: (heard.append(("dialog", dialog.message)), dialog.dismiss()))
        page.on("request", lambda asked: heard.append(("request", asked.url)))
        page.goto((reports / f"{name}.html").as_uri())
        page.wait_for_load_state("load")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [one for one in heard if one[0] != "request"] == []
    assert all(
        url.startswith("file:") and url.split("#")[0].endswith(".html") for kind, url in heard if kind == "request"
    )


def card(page, name):
    return page.locator(".card", has=page.get_by_role("heading", name=name, exact=True))


def shown_names(page):
    return page.locator("#grid .card:visible h3").all_inner_texts()


@pytest.mark.parametrize("name", ["plain", "hostile", "classes"])
def test_the_page_opens_quietly_and_draws_every_shape(open_page, name):
    page = open_page(name)
    drawn = page.locator("#grid .live:visible")
    assert drawn.count() == page.locator("#grid .card").count() > 5
    assert page.locator("#grid .live:not(:has(path.line, rect.bar, path.mark))").count() == 0


@pytest.mark.parametrize("name", ["plain", "hostile", "classes"])
@pytest.mark.parametrize("width", [390, 1200])
def test_every_edit_is_drawn_before_and_after_within_its_cell(open_page, name, width):
    page = open_page(name)
    page.set_viewport_size({"width": width, "height": 900})
    drawn = page.locator("#edits svg.edit")
    assert drawn.count() == page.locator("#edits tbody tr").count() - 1 >= 2  # the intercept has no drawing
    assert page.locator("#edits svg.edit:not(:has(path.edit-before, circle.edit-before))").count() == 0
    assert page.locator("#edits svg.edit:not(:has(path.edit-after, circle.edit-after))").count() == 1  # was dropped
    for one in drawn.all():
        outer, cell = one.bounding_box(), one.locator("xpath=..").bounding_box()
        assert cell["x"] <= outer["x"] and outer["x"] + outer["width"] <= cell["x"] + cell["width"] + 1
    page.locator("nav a", has_text="Edits").click()
    assert page.url.endswith("#edits")


def test_hostile_names_run_nothing_and_are_read_as_text(open_page):
    page = open_page("hostile")
    names = set(page.locator("#grid h3").all_text_contents())
    assert {clean(name) for name in HOSTILE if name.strip()} <= names
    assert page.locator("script").count() == 2
    assert page.locator("img, iframe, object, embed, link").count() == 0
    for drawing in page.locator("#grid .live").all()[:8]:
        drawing.focus()
    page.locator("#search").fill("<img")
    page.wait_for_timeout(100)
    assert page.evaluate("document.querySelectorAll('script').length") == 2


def test_a_script_that_came_in_by_another_way_is_not_run(open_page, browser, reports):
    text = (reports / "plain.html").read_text("utf-8")
    changed = reports / "changed.html"
    changed.write_text(
        text.replace(
            "</main>", "<script>document.title='taken over'</script><b onclick='document.title=1'>b</b></main>"
        )
    )
    context = browser.new_context()
    page = context.new_page()
    page.goto(changed.as_uri())
    page.locator("b").click()
    assert page.title() == "Report of price"
    assert page.locator("#grid .live").count() == 8  # the script of the page still runs
    context.close()


def test_search_filters_and_escape_brings_all_back(open_page):
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("COLUMN 3")
    assert shown_names(page) == ["column 3"]
    assert page.locator("#found").inner_text() == "1 of 8 shown"
    page.keyboard.type("zzz")
    assert page.locator("#nothing").is_visible()
    page.keyboard.press("Escape")
    assert len(shown_names(page)) == 8


def test_shapes_can_be_sorted_by_name_and_back_by_importance(open_page):
    page = open_page()
    before = shown_names(page)
    page.locator("#order").select_option("name")
    assert shown_names(page) == sorted(before) != before
    page.locator("#order").select_option("importance")
    assert shown_names(page) == before


def test_the_mouse_reads_value_effect_and_count(open_page):
    page = open_page()
    shape = card(page, "column 0")
    assert shape.locator(".readout").inner_text() == ""
    shape.locator(".live").hover(position={"x": 150, "y": 80})
    words = shape.locator(".readout").inner_text()
    assert "adds" in words
    assert "rows near" in words
    assert shape.locator(".live .dot:visible").count() == 1
    page.mouse.move(1, 1)
    assert shape.locator(".readout").inner_text() == ""


def test_the_read_out_is_the_curve_at_that_place(open_page):
    page = open_page()
    shape = card(page, "column 0")
    shape.locator(".live").focus()
    page.keyboard.press("Home")
    curve = explanation(8, hostile=False).feature("column 0").curve
    value, effect = shape.locator(".readout").inner_text().split("·")[0].replace("−", "-").split(": adds")
    assert float(value) == pytest.approx(curve.x[0], rel=1e-3)
    assert float(effect) == pytest.approx(curve.effect[0][0], abs=0.006)


def test_arrow_keys_move_along_the_curve_and_on_to_the_missing_cells(open_page):
    page = open_page()
    shape = card(page, "column 0")
    drawing = shape.locator(".live")
    drawing.focus()
    middle = drawing.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert drawing.get_attribute("aria-valuetext") != middle
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert drawing.get_attribute("aria-valuetext").startswith("missing: adds")
    assert shape.locator(".readout").inner_text() == drawing.get_attribute("aria-valuetext")


def test_arrow_keys_move_over_the_levels(open_page):
    page = open_page()
    shape = card(page, "column 6")
    shape.locator(".live").focus()
    page.keyboard.press("End")
    assert shape.locator(".readout").inner_text().startswith("missing:")
    page.keyboard.press("ArrowUp")
    assert shape.locator(".readout").inner_text().startswith("level ")


def test_tab_reaches_a_drawing_and_its_focus_can_be_seen(open_page):
    page = open_page()
    page.locator("#same").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.classList.contains('live')")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"


def test_every_control_has_a_name(open_page):
    page = open_page("classes")
    nameless = """() => {
        const wanted = 'button, input, select, [role=slider], [role=region], svg[role=img]';
        const name = (one) => one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent;
        return [...document.querySelectorAll(wanted)].filter((one) => !name(one).trim()).length;
    }"""
    assert page.evaluate(nameless) == 0


def test_dragging_zooms_and_the_button_resets(open_page):
    page = open_page()
    shape = card(page, "column 0")
    shape.scroll_into_view_if_needed()
    ticks = shape.locator(".live .tick")
    before = ticks.all_text_contents()
    box = shape.locator(".live").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 130, box["y"] + 80, steps=3)
    page.mouse.up()
    assert ticks.all_text_contents() != before
    shape.get_by_role("button", name="Reset zoom").click()
    assert ticks.all_text_contents() == before
    assert shape.get_by_role("button", name="Reset zoom").count() == 0


def test_keys_and_the_wheel_zoom_too(open_page):
    page = open_page()
    shape = card(page, "column 0")
    ticks = shape.locator(".live .tick")
    before = ticks.all_text_contents()
    shape.locator(".live").focus()
    page.keyboard.press("+")
    assert ticks.all_text_contents() != before
    page.keyboard.press("0")
    assert ticks.all_text_contents() == before
    shape.locator(".live").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    shape.get_by_role("button", name="Reset zoom").wait_for()
    assert ticks.all_text_contents() != before


def test_one_scale_for_all_gives_all_curves_the_same_axis(open_page):
    page = open_page()
    page.locator("#same").check()
    labels = [
        one.locator(".live .upward .tick").all_text_contents()
        for one in page.locator("#grid .card:has(.density)").all()
    ]
    assert len({tuple(one) for one in labels}) == 1
    assert len([label for label in labels[0] if label]) > 2


def test_one_class_can_be_looked_at_alone(open_page):
    page = open_page("classes")
    curve = page.locator("#grid .card:has(path.line) .live").first
    assert curve.locator("path.line:not([hidden])").count() == 5
    page.locator("#output").select_option("7")
    assert curve.locator("path.line:not([hidden])").count() == 1
    assert not page.locator("#legend").is_visible()


def test_dark_follows_the_system_and_the_button_turns_it(open_page):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = open_page(color_scheme="light")
    bright = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    night = page.evaluate(ground)
    assert night != bright
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(ground) == bright
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(ground) == night


@pytest.mark.parametrize("name", ["plain", "hostile", "classes"])
def test_a_narrow_window_scrolls_in_one_direction_only(open_page, name):
    page = open_page(name)
    for width in (800, 400, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_curves_and_tables_are_there_and_controls_are_not(open_page):
    page = open_page("hostile", java_script_enabled=False)
    assert page.locator("#grid .chart:visible").count() == 30
    assert page.locator(".controls:visible, #theme:visible, .readout:visible").count() == 0


def test_print_shows_every_feature_in_light_whatever_the_screen_shows(open_page):
    page = open_page(color_scheme="dark")
    page.locator("#search").fill("column 3")
    page.emulate_media(media="print")
    assert page.locator("#grid .chart:visible").count() == 8
    assert page.locator(".cursor:visible, .controls:visible, button:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF-")


def test_a_map_is_read_by_arrow_keys_and_by_pointing(open_page):
    page = open_page()
    drawn = page.locator("#pair-0 .map")
    drawn.focus()
    first = drawn.get_attribute("aria-valuetext")
    assert page.locator("#pair-0 .readout").inner_text() == first and "together" in first and "sum" in first
    assert page.locator("#pair-0 .cursor").is_visible()
    for key in ("Home", *["PageDown"] * 20):
        page.keyboard.press(key)
    corner = drawn.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    beside = drawn.get_attribute("aria-valuetext")
    assert beside != corner and drawn.get_attribute("aria-valuenow") == "2"
    page.keyboard.press("ArrowUp")
    assert drawn.get_attribute("aria-valuetext") not in (corner, beside)
    for key in ("ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert drawn.get_attribute("aria-valuetext") == corner
    page.keyboard.press("Tab")
    assert not page.locator("#pair-0 .cursor").is_visible()
    box = page.locator("#pair-1 .map .area").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.5 * box["height"])
    assert "together" in page.locator("#pair-1 .readout").inner_text()


@pytest.mark.parametrize("name", ["plain", "classes"])
def test_a_map_shows_one_surface_at_a_time_and_the_summed_one_on_request(open_page, name):
    page = open_page(name)
    card_of = page.locator("#pair-0")
    shown = card_of.locator(".layer:visible")
    assert shown.count() == 1 and shown.get_attribute("data-surface") == "effect"
    card_of.locator(".summed").check()
    assert shown.count() == 1 and shown.get_attribute("data-surface") == "total"
    if name == "classes":
        card_of.locator(".of-output").select_option("2")
        assert shown.count() == 1 and shown.get_attribute("data-rank") == "2"


def test_without_a_script_a_map_is_a_picture(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#pair-0 .map .layer:visible").count() == 1
    assert page.locator("#pair-0 .map").get_attribute("role") == "img"
    assert not page.locator("#pair-0 .summed").is_visible()


def test_a_dark_page_has_a_dark_map(open_page):
    fills = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        fills.append(
            page.locator("#pair-0 .map .layer:visible path[class^=p]").first.evaluate("e => getComputedStyle(e).fill")
        )
    assert fills[0] != fills[1]
