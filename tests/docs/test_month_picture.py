"""The picture of a move shows its steps in order, and uses the colours of the theme."""

from xml.etree import ElementTree

from docs._ext import month_picture, pages

SVG = "{http://www.w3.org/2000/svg}"


def texts(kind: str) -> list[str]:
    root = ElementTree.fromstring(month_picture.draw())
    return [str(found.text) for found in root.iter(f"{SVG}text") if found.get("class") == kind]


def test_every_step_is_drawn_in_its_order_and_explained() -> None:
    places = list(month_picture.STEPS.values())
    assert places == sorted(places)
    numbers = [text for text in texts("number") if text.isdigit()]
    assert numbers == list(month_picture.STEPS)
    explained = texts("caption")[0]
    assert all(f"{number}: " in explained for number in numbers)


def test_every_message_in_the_picture_is_explained() -> None:
    messages = [text for text in texts("number") if not text.isdigit()]
    assert [caption[0] for caption in texts("caption")[1:]] == messages == ["a", "b"]


def test_every_element_is_inside_the_drawing() -> None:
    root = ElementTree.fromstring(month_picture.draw())
    width, height = (float(number) for number in str(root.get("viewBox")).split()[2:])
    for box in root.iter(f"{SVG}rect"):
        assert float(str(box.get("x"))) + float(str(box.get("width"))) <= width
        assert float(str(box.get("y"))) + float(str(box.get("height"))) <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(str(text.get("y"))) <= height


def test_it_is_one_block_of_html_without_colours_of_its_own() -> None:
    figure = pages.PARTS["month-picture"]()
    assert "\n\n" not in figure
    assert not any(word in figure for word in ("fill=", "stroke=", "style=", "#0", "#f"))
