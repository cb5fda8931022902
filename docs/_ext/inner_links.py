"""Report links within the built site whose page, file or heading does not exist: python inner_links.py FOLDER"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the names that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := found.get(name)))
        self.links.update(value for name in ("href", "src") if (value := found.get(name)))


def broken(site: Path) -> list[str]:
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "_static"}
    missing = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = target.exists() and (target not in pages or unquote(parts.fragment) in pages[target].anchors)
            if not known:
                missing.append(f"{path.relative_to(site)}: {link}")
    return sorted(missing)


if __name__ == "__main__":
    missing = broken(Path(sys.argv[1]))
    sys.stdout.write("".join(f"broken link in {one}\n" for one in missing))
    sys.exit(bool(missing))
