"""Whether a message asks something, and which kinds of words it has, by which a question is
followed through the talk after it: flags are kept of that, not the text.
"""

import re
import tomllib
from importlib import resources
from typing import Final

from channelstats.tables.message_row import Sign

_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

_MARKS: Final = "?\uff1f\u061f"
"""Of Latin, Chinese and Arabic script."""

_RUN: Final = re.compile(rf"[{_MARKS}]+")
_NO_WORD: Final = "/<&="
"""Signs of addresses and programs: a mark behind one ends no word."""
_WORD_END: Final = re.compile(r"""$|[\s!*_~)"'.:\u00bb\u201d\u2019]""")
_SPACES: Final = (" ", "\u00a0", "\u202f")
_APART: Final = re.compile(r"\s*(?:$|\n)|\s+(?:[^\W\d_a-z]|<http)")
"""What follows a mark that stands apart: the end of the line, a new sentence, or a link."""

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

_INVERTED: Final = (
    r"(?:is|are|was|were|does|did|can|could|would|will|should)"
    r" (?:i|you|we|he|she|it|they|there|these)\b"
    r"|(?:is|was|does|did) (?:this|that)\b|is any|(?:do|have) (?:you|we)\b|may i\b"
)
"""How English asks: the verb first."""

_HELLOS: Final = "hi|hey|hello|hallo|moin|salut|hola|olá|ciao|hej|cześć"

_OPENING: Final = re.compile(
    # After mentions and a hello.
    rf"\s*(?:(?:<[@!][^>]*>|:[^\s:]+:|{_HELLOS})[\s,!]+)*"
    rf"(?:{_INVERTED}|{'|'.join(_OPENERS.values())})",
    re.IGNORECASE,
)

_WISHES: Final = "advice|help|recommendations?|suggestions?|ideas?|tips|hints?|clues?|updates?|news"
_REQUESTS: Final = re.compile(
    r"is it possible|is there any|if (?:some|any)(?:one|body) (?:can|could|would|knows|has)"
    r"|let me know (?:how|where|what|which|who)|(?:i am|i'm|am|are|got|getting) stuck\b"
    rf"|(?:^|[.!,\n] *)any (?:\w+ )?(?:{_WISHES}|luck)\b(?![^.!?\n]*\bwelcome)"
    rf"|looking for (?:some |any )?(?:{_WISHES}|someone who|a way)"
    r"|\b(?:i|we) (?:really )?need (?:some |your )?(?:help|advice)|(?:can't|cannot) figure"
    r"|struggling (?:with|to)|wondering (?:if|how|whether|why|what|which|where)"
    r"|would like to know|please (?:help|advise)|does some|do some(?:one|body)"
    r"|¿|alguien (?:que )?(?:pueda|podría)|necesito ayuda|agradecer\w* (?:si|ayuda)"
    r"|brauche (?:eure |etwas )?hilfe|komme nicht weiter"
    r"|j'ai besoin d|preciso de ajuda|ho bisogno d"
)
"""How somebody asks for something without a mark, anywhere in what they write."""

_REQUEST_WORDS: Final = frozenset(
    # Checked first, as most messages have none of them.
    "possible there someone somebody anyone anybody let stuck any looking need figure struggling"  # noqa: SIM905
    " wondering know help advise does alguien necesito ayuda agradecería agradeceria hilfe komme"
    " besoin preciso bisogno".split()
)

_FIRST_WORDS: Final = (
    frozenset(phrase.split()[0] for phrases in _OPENERS.values() for phrase in phrases.split("|"))
    | frozenset("is are was were does did can could would will should do have may".split())  # noqa: SIM905
    | frozenset(_HELLOS.split("|"))
)
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
        return _requests(text) and _is_open(text)
    if text[:1] in _QUOTE_BEGINS and _QUOTES.match(text):
        return asks(_own_words(text))
    return (_OPENING.match(text) is not None or _requests(text)) and _is_open(text)


def _requests(text: str) -> bool:
    lower = text[:_READ].lower().replace("\u2019", "'")
    return not _REQUEST_WORDS.isdisjoint(lower.split()) and _REQUESTS.search(lower) is not None


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
    a sentence, as French has it. Those in an address or a program have something else around them.
    """
    before = text[begin - 1 : begin] if begin else ""
    if before in _SPACES and _APART.match(text, end):
        return True
    is_of_word = before and not before.isspace() and before not in _NO_WORD
    if is_of_word and begin > 1:
        is_of_word = text[begin - 2] not in _MARKS  # `?a?`
    return bool(is_of_word or end - begin > 1) and _WORD_END.match(text, end) is not None


# ── the kinds of words ───────────────────────────────────────────────────────────────────────────

_READ: Final = 400
"""Characters of a message that are looked at."""

_SIGNS_AROUND: Final = str.maketrans(dict.fromkeys('!?.,;:()[]*_~"\u00a1\u00bf\u2026\n\r\t', " "))


def _read_words() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("words.toml").read_text("utf-8")
    kinds: dict[str, dict[str, str]] = tomllib.loads(text)
    return {
        kind: frozenset(" ".join(languages.values()).split()) for kind, languages in kinds.items()
    }


_WORDS: Final = _read_words()
# Whole numbers, as flags take ten times as long, and this is done for every message.
_TO_ALL, _SETTLED_SIGN, _REPLIES = int(Sign.TO_ALL), int(Sign.SETTLED), int(Sign.REPLIES)
_ANYWHERE: Final = (
    (_TO_ALL, _WORDS["to_all"]),
    (int(Sign.THANKS), _WORDS["thanks"]),
    (_SETTLED_SIGN, _WORDS["settled"]),
    (_REPLIES, _WORDS["replies"]),
    (int(Sign.LAUGHS), _WORDS["laughs"]),
    (int(Sign.OWN), _WORDS["own"]),
)
_FIRST: Final = (
    (_TO_ALL, _WORDS["to_all_first"]),
    (int(Sign.AGREES), _WORDS["agrees_first"]),
    (_REPLIES, _WORDS["replies_first"]),
)
_WANTS_YES: Final = int(Sign.WANTS_YES)
_SOMEWHERE: Final = frozenset[str]().union(*(words for _, words in _ANYWHERE))
_FOUND_WORDS: Final = frozenset({"figured", "found", "got", "mind", "trick"})
_FOUND_OUT: Final = re.compile(
    r"\b(?:figured (?:it |this |that )?out|found it|got it|never mind"
    r"|did the trick)\b"
)
_ASKS_BACK: Final = re.compile(
    r"(?<!how )\b(?:are|were|did|do|have|is|was|does) (?:you|your)\b(?! know)|\bwhy not\b"
    r"|\b(?:how|what|where)'s your\b|\b(?:hast|bist|nutzt|habt|seid) (?:du|ihr)\b"
    r"|\b(?:as-tu|avez-vous|tu as|vous avez)\b|\bhai\b"
    r"|\b(?:has \w+[ai]do|habéis|tienes|tenéis|estás|usas)\b|\bheb je\b|\bvocê (?:tem|fez)\b"
)
_SOMEBODY: Final = frozenset({"someone", "somebody"})
_CAN_SOMEBODY: Final = re.compile(
    r"\b(?:can|could|would|will|has|have|does|do|is|if|need|for|get|know)"
    r" some(?:one|body)\b(?! else)"
)
_CALLS: Final = _WORDS["to_all"] | _SOMEBODY
_CALL_WORDS: Final = 4
"""Words at the beginning of a text in which it calls on everybody."""
_NAMED_FIRST: Final = re.compile(r"\W*\w+\W+<@")


def signs(text: str) -> int:
    """The kinds of words that a text has, in its first characters: see `Sign`."""
    lower = text[:_READ].lower().replace("\u2019", "'")
    words = lower.translate(_SIGNS_AROUND).split()
    if not words:
        return 0
    flags, first = 0, words[0]
    if not _SOMEWHERE.isdisjoint(words):
        for sign, some in _ANYWHERE:
            if not some.isdisjoint(words):
                flags |= sign
    if not _SOMEBODY.isdisjoint(words) and _CAN_SOMEBODY.search(lower):
        flags |= _TO_ALL
    # Later in a statement such a word calls on nobody: `as everyone knows`.
    if flags & _TO_ALL and "?" not in lower and _CALLS.isdisjoint(words[:_CALL_WORDS]):
        flags &= ~_TO_ALL
    for sign, some in _FIRST:
        if first in some:
            flags |= sign
    if first in _WORDS["own"] and not _WORDS["replies_first"].isdisjoint(words[1:3]):
        flags |= _REPLIES
    if flags & _TO_ALL and _NAMED_FIRST.match(lower):  # `hi <@U1>`
        flags &= ~_TO_ALL
    if words[-1] in _WORDS["tag_last"] and lower.rstrip().endswith("?"):
        flags |= _WANTS_YES
    if flags & _REPLIES and _ASKS_BACK.search(lower):
        flags |= int(Sign.ASKS_BACK)
    if not _FOUND_WORDS.isdisjoint(words) and _FOUND_OUT.search(lower):
        flags |= _SETTLED_SIGN
    return flags
