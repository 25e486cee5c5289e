"""What is on a page."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """``links`` are where a page leads, ``loads`` what it loads, ``running`` what in it would run;
    ``styled`` are elements with a style in the page, ``images`` the labels of pictures.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.running: list[str] = []
        self.styled: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.tags.append(tag)
        places = [of[name] or "" for name in ("href", "src") if name in of]
        (self.loads if tag in ("link", "script", "img") else self.links).extend(places)
        self.running += [name for name in of if name.startswith("on")]
        if tag == "script" and "src" not in of:
            self.running.append(tag)
        if tag == "style" or "style" in of:
            self.styled.append(tag)
        if tag == "svg" and of.get("role") in ("img", "group"):
            self.images.append(of.get("aria-label") or "")
