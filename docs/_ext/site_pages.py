"""Pages of the site that are written elsewhere: the changelog, the guide for contributors, the help of the commands.

The Markdown files in docs also have to be readable on a code host.  What only Sphinx needs is therefore changed here,
while a page is read, and not in the files: anchors, and links that leave docs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}  # page of the site, file


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", prepare)
    return {"parallel_read_safe": True}


def prepare(app: Any, page: str, source: list[str]) -> None:
    """Replace or complete the text of a page before it is parsed."""
    text = source[0]
    if page in FROM_ROOT:
        text = seen_from_docs((ROOT / FROM_ROOT[page]).read_text(encoding="utf-8"))
    if page == "commands":
        text += "\n".join(command_sections())
    if page.startswith(("auto_gallery", "generated")):
        return
    source[0] = within_site(text)


def seen_from_docs(text: str) -> str:
    """Links relative to the root of the repository, as links relative to docs."""
    text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)
    return text.replace("](docs/", "](")


def within_site(text: str) -> str:
    """Links to files that the site has as pages lead to these pages, and anchors are targets that Sphinx knows."""
    for page, file in FROM_ROOT.items():
        text = re.sub(rf"\]\(((?:\.\./)*)\.\./{file}", rf"](\1{page}.md", text)
    text = re.sub(r'^(?:<a id="[^"]+"></a> *)+$', lambda line: targets(line[0]), text, flags=re.MULTILINE)
    return re.sub(r"\]\((?:\.\./)?theory\.md#(eq-\w+)\)", r"](#\1)", text)


def targets(anchors: str) -> str:
    """The anchors of a line as targets, one per line."""
    return "\n".join(f"({name})=" for name in re.findall(r'id="([^"]+)"', anchors))


def command_sections() -> Iterator[str]:
    """One section per command, with what ``kernelgpa COMMAND --help`` prints."""
    import typer

    from kernelgpa.cli import app

    commands: Any = typer.main.get_command(app)
    for name in sorted(commands.commands):
        command = commands.commands[name]
        context = typer.Context(command, info_name=f"kernelgpa {name}", terminal_width=78, max_content_width=78)
        yield f"\n## kernelgpa {name}\n\n```text\n{command.get_help(context)}\n```\n"
