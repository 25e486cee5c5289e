"""The tags of an HTML document."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """The start tags of a document with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, name: str) -> list[str]:
        """The values of an attribute, wherever it occurs."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]
