"""What is to be done first as a feed (Atom, RFC 4287), for a reader or another program."""

import uuid
from datetime import date, datetime, time
from typing import Final
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

from channelstats.render.names import Directory
from channelstats.views.model import TO_DO, Kind, Page
from channelstats.views.queue import QUEUE, SHOWN

_ATOM: Final = "http://www.w3.org/2005/Atom"


def atom_of(view: Page, names: Directory, zone: ZoneInfo, here: str) -> bytes:
    """The first items of the view To do; ``here`` is the address of the dashboard. An entry leads
    to its message, or to the list where the address of the workspace is not known.
    """
    (table,) = (of for of in view.tables if of.name == QUEUE)
    rows = table.rows.head(SHOWN).to_dicts()
    address = f"{here}/{TO_DO}"
    feed = ET.Element("feed", xmlns=_ATOM)
    _add(feed, "title", table.title)
    _add(feed, "id", f"{address}.atom")
    ET.SubElement(feed, "link", rel="self", href=f"{address}.atom")
    ET.SubElement(feed, "link", rel="alternate", href=address)
    _add(feed, "updated", _at(view.choice.last.isoformat(), zone))
    _add(ET.SubElement(feed, "author"), "name", "channelstats")
    for row in rows:
        person, channel = names.person(row["person"]), names.called(row["channel"], Kind.CHANNEL)
        entry = ET.SubElement(feed, "entry")
        _add(entry, "title", f"{row['action']}: {person} in {channel}")
        # Where keys are not shown, as they tell times, the same row is the same entry.
        key = row.get("item") or "/".join(map(str, row.values()))
        _add(entry, "id", uuid.uuid5(uuid.NAMESPACE_URL, f"{address}#{key}").urn)
        link = names.permalink(row.get("message", "")) or address
        ET.SubElement(entry, "link", href=link)
        _add(entry, "updated", _at(row["date"], zone))
        _add(entry, "summary", row["reason"])
    text: str = ET.tostring(feed, encoding="unicode", xml_declaration=True)
    return text.encode()


def _add(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text


def _at(day: str, zone: ZoneInfo) -> str:
    return datetime.combine(date.fromisoformat(day), time(), zone).isoformat()
