"""Whether a message asks something: a flag is kept of it, not its text."""

import re
from typing import Final

_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

_MARKS: Final = "?\uff1f\u061f"
"""Of Latin, Chinese and Arabic script."""

_RUN: Final = re.compile(rf"[{_MARKS}]+")
_NO_WORD: Final = "/<&="
"""Signs of addresses and programs: a mark behind one ends no word."""
_WORD_END: Final = re.compile(r"""$|[\s!*_~)"'.:\u00bb\u201d\u2019]""")
_SPACES: Final = (" ", "\u00a0", "\u202f")
_LINE_END: Final = re.compile(r"\s*(?:$|\n)")

_OPENERS: Final = {
    "en": "anyone know|anybody know|does any|do any|can any|can some|could any|could some|has any"
    "|have any|is there a|are there any|how do|how can|how to|how does|where can|where do|where is"
    "|who can|who knows|what is the best|why does|why is",
    "de": "weiß jemand|weiss jemand|kann jemand|hat jemand|kennt jemand|wer kann|wer weiß|wie kann"
    "|wie bekomme|wie geht|wo finde|wo kann|gibt es ein",
    "fr": "est-ce que|qui peut|qui sait|quelqu'un sait|quelqu'un peut|comment faire|comment on"
    "|où est|où trouver|pourquoi est",
    "es": "alguien sabe|alguien puede|alguien tiene|cómo puedo|cómo se|dónde está|dónde puedo"
    "|quién puede|hay alguna|hay algún",
    "pt": "alguém sabe|alguém pode|alguém tem|como faço|como posso|onde está|onde posso|quem pode",
    "it": "qualcuno sa|qualcuno può|qualcuno ha|come posso|come si|dove posso|dove trovo|chi può",
    "nl": "weet iemand|kan iemand|heeft iemand|hoe kan|hoe moet|waar kan|waar vind|wie kan"
    "|wie weet",
    "sv": "vet någon|kan någon|har någon|hur kan|hur gör|var hittar|vem kan|finns det någo",
    "pl": "czy ktoś|ktoś wie|kto może|jak mogę|jak można|gdzie jest|gdzie mogę|czy jest",
}
"""How a question begins that has no mark, by language. What may also begin a statement is not in
it: `what a day`.
"""

_HELLOS: Final = "hi|hey|hello|hallo|moin|salut|hola|olá|ciao|hej|cześć"

_OPENING: Final = re.compile(
    # After mentions and a greeting.
    rf"\s*(?:(?:<[@!][^>]*>|:[^\s:]+:|{_HELLOS})[\s,!]+)*(?:{'|'.join(_OPENERS.values())})",
    re.IGNORECASE,
)

_FIRST_WORDS: Final = frozenset(
    phrase.split()[0] for phrases in _OPENERS.values() for phrase in phrases.split("|")
) | frozenset(_HELLOS.split("|"))
"""Checked first, as most messages begin with none of them."""


_QUOTES: Final = re.compile(r"^[ \t]*(?:>|&gt;)(?:>>|&gt;&gt;)?", re.MULTILINE)
"""How a line begins that quotes somebody; with three signs all that follows does."""

_QUOTE_BEGINS: Final = frozenset(">&")
_OPENING_SIGNS: Final = frozenset("[(*_~-")

_EDIT: Final = r"(?:edit|edited|update|upd)\b[^\n]{0,40}?"
_SETTLED: Final = re.compile(
    rf"(?:^[\s*_~\[(:-]*(?:{_EDIT})?|\b{_EDIT})"
    r"\b(?:solved|resolved|fixed it|figured it out|found it|nvm|never ?mind|no longer needed"
    r"|gelöst|erledigt|hat sich erledigt|geklärt|résolu|resuelto|resolvido|risolto|opgelost"
    r"|löst|rozwiązane)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A line by which somebody says that the question has been settled: `EDIT: solved`."""


def _own_words(text: str) -> str:
    """A text without what it quotes."""
    own = []
    for line in text.split("\n"):
        quote = _QUOTES.match(line)
        if quote is None:
            own.append(line)
        elif len(quote[0].strip().replace("&gt;", ">")) == 3:
            break
    return "\n".join(own)


def asks(text: str) -> bool:
    """Whether a text is a question: by its question mark, or by how it begins; not what it quotes,
    nor where a line of it says that it is settled. Questions without a mark that begin otherwise,
    or in another language, are not recognised.
    """
    if "`" in text:
        text = _CODE.sub(" ", text)
    # Nearly all texts are soon known to have no mark.
    may_have_marks = "?" in text or not text.isascii()
    if may_have_marks and any(_ends_question(text, *run.span()) for run in _RUN.finditer(text)):
        return _is_open(text)
    first = text.partition(" ")[0]
    if first[:1] not in "<:>&" and first.rstrip(",!").lower() not in _FIRST_WORDS:
        return False
    if text[:1] in _QUOTE_BEGINS and _QUOTES.match(text):
        return asks(_own_words(text))
    return _OPENING.match(text) is not None and _is_open(text)


def _is_open(text: str) -> bool:
    """Whether what seems to be a question is one in the author's own words, and is not settled."""
    has_lines = "\n" in text
    if (has_lines or text[0] in _QUOTE_BEGINS) and _QUOTES.search(text):
        return asks(_own_words(text))
    lower = text.lower()
    may_be_settled = has_lines or text[0] in _OPENING_SIGNS or "edit" in lower or "upd" in lower
    return not (may_be_settled and _SETTLED.search(text))


def _ends_question(text: str, begin: int, end: int) -> bool:
    """Whether the question marks from ``begin`` to ``end`` end a word, or stand apart at the end of
    a line, as French has it. Those in an address or a program have something else around them.
    """
    before = text[begin - 1 : begin] if begin else ""
    if before in _SPACES and _LINE_END.match(text, end):
        return True
    is_of_word = before and not before.isspace() and before not in _NO_WORD
    if is_of_word and begin > 1:
        is_of_word = text[begin - 2] not in _MARKS  # `?a?`
    return bool(is_of_word or end - begin > 1) and _WORD_END.match(text, end) is not None
