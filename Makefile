# Everything happens in .venv, which is made on first use and kept while pyproject.toml stays the same.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# two test processes on two cores: more threads each would only wait for one another
SINGLE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-all test-portable test-pythons check bench docs docs-links release release-check clean

demo: $(READY)
	$(BIN)/kernelgpa demo

test: $(READY)
	$(SINGLE) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'
	@echo "The slow tests were left out; make test-all runs them too."

test-all: $(READY)
	$(SINGLE) $(BIN)/python -m pytest -n 2 --dist worksteal

# the numerical tests on the BLAS kernels of other processors, and with two BLAS threads
test-portable: $(READY)
	$(BIN)/python tests/portable.py

# make test-pythons PYTHONS="3.12 3.13" runs only these; each must be on the path
test-pythons: $(READY)
	$(BIN)/nox --session tests $(if $(PYTHONS),--pythons $(PYTHONS))

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v node > /dev/null; then node tests/lint_page.mjs; \
	  else echo "node is not installed; the scripts of the report page were not checked"; fi

bench: $(READY)
	$(BIN)/python benchmarks/speed.py short

# the site, without network and without warnings: open docs/_build/html/index.html
docs: .venv/.docs
	$(SINGLE) $(BIN)/python -m sphinx -W --keep-going -E -a -q -b html docs docs/_build/html
	@! grep -rlE '(src|href)="(https?:)?//[^"]*[.](js|css|woff2?)"' --include='*.html' docs/_build/html || \
	  { echo "these pages load files from the network"; exit 1; }
	@$(BIN)/python docs/_ext/inner_links.py docs/_build/html

# follows the links that leave the site; needs network
docs-links: .venv/.docs
	$(BIN)/python -m sphinx -q -D plot_gallery=0 -b linkcheck docs docs/_build/links

.venv/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kernelgpa needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# the sdist and the wheel that are published, in dist
release: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	@ls dist

# the wheel in empty environments, with the lowest and the highest versions of its dependencies: the demo and tests.
# make release-check PYTHONS=3.11 VERSIONS=lowest runs one of the six; TESTS="-m 'not slow'" or TESTS="-k ''" other tests
release-check: release
	$(BIN)/nox --tags $(or $(VERSIONS),release) $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(TESTS),-- $(TESTS))

clean:
	rm -rf kernelgpa-demo docs/_build docs/auto_gallery docs/generated dist .venv .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
