"""Commands, Python code, links and names in the documentation are true."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

from kernelgpa.cli import main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "quickstart").glob("*.md")])
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
CURRENT = [page for page in PAGES if page.name not in {"CHANGELOG.md", "upgrading.md"}]  # which name what was renamed
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
FOREIGN = {"DataCell", "VisVecCell", "IterativeImputer", "GridSearchCV", "components_"}  # names of others
THEORY = (DOCS / "theory.md").read_text(encoding="utf-8")


PACKAGE = ROOT / "src" / "kernelgpa"


def blocks(page):
    return re.findall(r"```(sh|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def exit_code():
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


def expanded(words):
    """File names with stars expanded, as by a shell."""
    for word in words:
        yield from sorted(map(str, Path().glob(word))) if "*" in word else [word]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_written(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(page)
    assert {kind for kind, _ in found} == {"sh", "python"}
    for kind, text in found:
        if kind == "python":
            if page.parent.name == "quickstart":  # each block is a program of its own
                names = {}
            exec(compile(text, page.name, "exec"), names)
            continue
        for line in text.strip().splitlines():
            words = list(expanded(shlex.split(line)))
            assert words[0] == "kernelgpa"
            monkeypatch.setattr(sys, "argv", words)
            assert exit_code() == 0, (line, capsys.readouterr().err)
    printed = "".join(capsys.readouterr())
    if page.parent.name == "quickstart":
        for line in shown_results(page):
            assert any(agree(line, other) for other in printed.splitlines()), line


def shown_results(page):
    return [
        line
        for text in re.findall(r"```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for line in text.splitlines()
    ]


def agree(shown, printed):
    """Whether two lines have the same words, and numbers that agree to a thousandth (4 digits are printed)."""
    number = r"\d+\.?\d*"
    if re.sub(number, "0", shown) != re.sub(number, "0", printed):
        return False
    pairs = zip(re.findall(number, shown), re.findall(number, printed), strict=True)
    return all(float(a) == pytest.approx(float(b), rel=1e-3) for a, b in pairs)


def test_results_that_differ_do_not_agree():
    assert agree("median 1.563 mm", "median 1.562 mm")
    assert not agree("median 1.563 mm", "median 1.570 mm")
    assert not agree("median 1.563 mm", "mean 1.563 mm")


@pytest.mark.parametrize("page", sorted((DOCS / "quickstart").glob("*.md")), ids=lambda page: page.stem)
def test_a_quick_start_shows_what_its_reader_sees(page):
    assert len(shown_results(page)) >= 2


def test_the_examples_of_simulated_scenes_run():
    found = blocks(DOCS / "simulate.md")
    assert {kind for kind, _ in found} == {"python"}
    for _, text in found:
        exec(compile(text, "simulate.md", "exec"), {})


def anchors(page):
    """The targets of links within a page: its headings as GitHub names them, and explicit anchors."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page):
    for path, anchor in re.findall(r"\]\((?!http)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), (path, anchor)


PACKAGES = sorted(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/**/__init__.py"))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_states_what_enters_what_leaves_and_its_equations(name):
    text = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8")))
    assert re.search(r"^In:   \S.*^Out:  \S.*^Equations of docs/theory\.md: \S", text, re.MULTILINE | re.DOTALL)


def test_the_table_of_formats_is_complete():
    from kernelgpa.io.files import FORMATS

    text = (DOCS / "files.md").read_text(encoding="utf-8")
    for suffix in FORMATS:
        assert f"`{suffix}`" in text, suffix


def test_every_equation_has_one_number_and_a_row_in_the_table():
    numbers = equation_numbers()
    expected = [*map(str, range(1, 29)), "16a", "16b", "16c", "22a"]
    assert numbers == sorted(expected, key=lambda number: (int(number.rstrip("abc")), number))  # in this order
    table = THEORY.split("## 18. ")[1].split("## 19. ")[0]
    listed = [number for cells in re.findall(r"^\| (\[.*?) \|", table, re.MULTILINE) for number in equations_in(cells)]
    assert sorted(listed) == sorted(numbers)


def test_the_contents_name_the_equations_of_each_section():
    contents, *sections = re.split(r"^## ", THEORY, flags=re.MULTILINE)
    titles = re.findall(r"^(\d+)\. \[(.+?)\]\(#.*?\)(?:: eqs?\. (.+))?$", contents, re.MULTILINE)
    assert [f"{number}. {title}" for number, title, _ in titles] == [one.splitlines()[0] for one in sections]
    for (_, _, listed), section in zip(titles, sections, strict=True):
        in_text = "\n".join(re.findall(r"```text\n(.*?)```", section, re.DOTALL))
        found = {re.match(r"\d+", number)[0] for number in re.findall(r"\((\d+[a-z]?)\)$", in_text, re.MULTILINE)}
        named = set()
        for part in re.findall(r"\d+[a-z]?(?: to \d+[a-z]?)?", listed):
            first, *last = (int(re.match(r"\d+", one)[0]) for one in part.split(" to "))
            named |= set(map(str, range(first, (last or [first])[0] + 1)))
        assert named == found, section.splitlines()[0]


def test_every_equation_that_the_code_cites_is_in_the_theory():
    lists = re.findall(r"\beqs?\. (\d+[a-z]?(?:(?:, | and | to )\d+[a-z]?)*)", SOURCE)
    cited = {number for one in lists for number in re.findall(r"\d+[a-z]?", one)}
    assert {"6", "12", "16b"} <= cited
    assert cited <= set(equation_numbers())


def equation_numbers():
    blocks_of_text = "\n".join(re.findall(r"```text\n(.*?)```", THEORY, re.DOTALL))
    return re.findall(r"\((\d+[a-z]?)\)$", blocks_of_text, re.MULTILINE)


def equations_in(cells):
    return re.findall(r"\d+[a-z]?", re.sub(r"\(.*?\)", "", cells))


@pytest.mark.parametrize("page", ["theory.md", "paper.md"])
def test_the_tests_that_the_pages_name_exist(page):
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py")}
    named = re.findall(
        r"((?:`test_\w+`, )*`test_\w+`) in \[(test_\w+\.py)\]", (DOCS / page).read_text(encoding="utf-8")
    )
    assert named
    for names, file in named:
        for test in re.findall(r"test_\w+", names):
            assert f"def {test}(" in tests[file], (test, file)


def test_every_statement_of_the_paper_has_its_module_and_its_test():
    text = (DOCS / "paper.md").read_text(encoding="utf-8").split("\n## 2. ")[1].split("## 3. ")[0]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in re.findall(r"^\| (?!paper ).*\|$", text, re.MULTILINE)
    ]
    assert len(rows) > 40
    for where, _, _, modules, tests in rows:
        if where == "Sections 1, 2":  # motivation and related work
            continue
        paths = re.findall(r"\[([\w/]+\.py)\]\(\.\./(src/kernelgpa|tests)/([\w/]+\.py)\)", f"{modules} {tests}")
        assert {folder for _, folder, _ in paths} == {"src/kernelgpa", "tests"}, where
        for shown, folder, path in paths:
            assert shown == path, where
            assert (ROOT / folder / path).is_file(), path
    for kind, count in NUMBERED_IN_THE_PAPER.items():
        listed = {number for row in rows for number in numbers_of(kind, row[0])}
        assert listed == set(range(1, count + 1)), kind


def test_the_functions_that_the_table_of_the_paper_names_exist():
    text = (DOCS / "paper.md").read_text(encoding="utf-8").split("\n## 2. ")[1].split("\n## 3. ")[0]
    links = re.findall(r"\]\(\.\./src/kernelgpa/([\w/]+\.py)\)(?:`::(\w+)`)?", text)
    assert links
    for path, name in links:
        defined = ast.parse((ROOT / "src" / "kernelgpa" / path).read_text(encoding="utf-8")).body
        names = {one.name for one in defined if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        assert name in names, (path, name)


NUMBERED_IN_THE_PAPER = {
    "Theorem": 3,
    "Proposition": 4,
    "Lemma": 15,
    "Remark": 11,
    "Definition": 12,
    "Example": 3,
    "Table": 3,
    "Figure": 14,
}


def numbers_of(kind, where):
    """The numbers after a word: 2 of "Lemma 2", 2 to 4 of "Lemmas 2 to 4", 2 and 4 of "Lemmas 2, 4"."""
    for listed in re.findall(rf"{kind}s? (\d+(?:(?: to |, )\d+)*)", where):
        for part in listed.split(", "):
            first, *last = map(int, part.split(" to "))
            yield from range(first, (last or [first])[0] + 1)


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.stem)
def test_the_names_in_the_pages_exist(page):
    """Dotted names can be resolved; classes and fitted attributes occur in the source."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(kernelgpa(?:\._?\w+)+)(?:\(.*?\))?`", text):
        resolve_name(name)
    for code in re.findall(r"`([^`\n]+)`", text):
        for name in re.findall(r"(?<![\w.])(?:[A-Z][a-z]+(?:[A-Z][A-Za-z]+)+|[a-z][a-z_]+_)(?![\w(])", code):
            assert re.search(rf"\b{name}\b", SOURCE) or name in FOREIGN, name


def test_the_functions_of_the_call_paths_exist():
    tables = re.findall(r"^\|.*\|$", (DOCS / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    for name in re.findall(r"`((?:\w+\.)*[a-z_]{4,})`", "\n".join(tables)):
        last = name.rsplit(".", 1)[-1]
        assert re.search(rf"\b{last}\b", SOURCE), name


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"], ids=lambda page: page.stem)
def test_the_layers_are_those_of_the_import_contract(page):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [layer.replace(" ", "").split(":") for layer in contracts[0]["layers"]]
    text = page.read_text(encoding="utf-8")
    start = re.search(r"^(\| `__main__`|__main__)", text, re.MULTILINE).start()
    listed = re.findall(r"^(?:\| )?([`_a-z, ]+?)(?: \||  )", text[start:].split("\n\n")[0], re.MULTILINE)
    names = [name.strip(" `") for line in listed for name in line.split(",")]
    assert names == [name for layer in layers for name in sorted(layer, key=names.index)]
