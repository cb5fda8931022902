"""CSV: long or wide, as its header says; written long, which holds everything."""

from __future__ import annotations

from . import csvlong, csvwide
from .base import Contents, Reading
from .rows import table_of


def parse(text: str, source: str, reading: Reading) -> Contents:
    header = {name.lower() for name in table_of(text, source)[0][1]}
    long = "landmark" in header or {"x", "y"} <= header
    return (csvlong if long else csvwide).parse(text, source, reading)


render = csvlong.render
