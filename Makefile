# Everything runs in .venv, made on first use and brought up to date when the pins change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --constraint constraints.txt
PINS := pyproject.toml constraints.txt
# before an environment is made, so that every file but torch's has the hash that locked/ says
PIP_HASHED := $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes --requirement

# real data sets that lie beside the project are used; otherwise the loaders look into their cache, then download
export SPARSENAM_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: help demo bench-real ablate constants test check lint types imports unit browser-tests mlflow-tests sql-tests postgres explore fuzz mutants claims bench bench-quick bench-large bench-growth bench-path bench-environments bench-step signals pairs coverage reproduce docs capabilities gallery package lowest lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/runtime.stamp ## fit a model on embedded data and show what it found
	$(BIN)/sparsenam demo

test: check ## set up, then run every check: what CI runs

check: lint types imports postgres unit browser-tests ## lint, types, imports, unit and browser-tests, in this order

lint: $(VENV)/dev.stamp ## style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/dev.stamp ## static types of src and paper
	$(BIN)/basedpyright --pythonpath $(BIN)/python

imports: $(VENV)/dev.stamp ## the order of the rooms
	$(BIN)/lint-imports

unit: $(VENV)/dev.stamp ## the tests, without the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --ignore tests/browser

browser-tests: $(VENV)/browser.stamp ## the report in a headless Chromium, which is installed where that can be
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || test -n "$$SPARSENAM_CHROMIUM" || \
		{ test "$$(id -u)" = 0 && timeout 60 apt-get update -qq && \
		timeout 300 apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "no Chromium: the browser tests will be skipped"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser -n 0 -rs

mlflow-tests: build/mlflow-venv/stamp ## the MLflow flavour and interpret's pictures, in an environment of their libraries
	OMP_NUM_THREADS=1 build/mlflow-venv/bin/python -m pytest -n 0 -p no:dash tests/exports/mlflow_checks.py tests/exports/test_interop.py

sql-tests: $(VENV)/dev.stamp postgres ## exported SQL in DuckDB, SQLite and a private PostgreSQL
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/exports/test_sql.py tests/exports/test_sql_options.py -n 0 -rs

postgres: ## the PostgreSQL server of the tests, which is installed where that can be
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ test "$$(id -u)" = 0 && timeout 60 apt-get update -qq && \
		timeout 300 apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } || \
		echo "no PostgreSQL server: its tests will be skipped"

explore: $(VENV)/dev.stamp ## the property tests on new random examples, five times as many
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n auto --dist loadgroup --ignore tests/browser -q --timeout 1200 \
		$$(grep -rl "^from hypothesis" tests --include 'test_*.py')

fuzz: $(VENV)/dev.stamp ## attacks on files, tables, runs and threads: minutes; ARGS="files --seed 1 --count 20000" for more
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

mutants: $(VENV)/dev.stamp ## changes of formulas, each of which a test must notice: minutes
	$(BIN)/python tools/mutants.py $(ARGS)

claims: $(VENV)/dev.stamp ## what README claims of choosing, on all its seeds: ten minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m slow tests/slow --timeout 600

bench-step: $(VENV)/dev.stamp ## time one training step, bank against loop
	$(BIN)/python benchmarks/step.py

bench-real: $(VENV)/benchmark.stamp ## us and our peers on real tables, docs/benchmarks.md and README's table: two hours; resumes
	$(BIN)/python -W ignore benchmarks/bench_real.py $(ARGS)
	$(BIN)/python benchmarks/real_page.py

ablate: $(VENV)/benchmark.stamp ## the default fit without each of its mechanisms, on real and generated tables: two hours; resumes
	$(BIN)/python -W ignore benchmarks/ablate.py $(ARGS)

constants: $(VENV)/benchmark.stamp ## each constant of the default fit halved and doubled, and docs/constants.md: an hour
	$(BIN)/python -W ignore benchmarks/constants.py $(ARGS)

bench: bench-environments ## us and our peers on nine tables, and docs/benchmarks_speed.md: hours; goes on where it was stopped
	$(BIN)/python benchmarks/bench.py $(ARGS)
	$(BIN)/python benchmarks/bench_page.py

bench-quick: bench-environments ## the same on 400 rows of each table: minutes; shows the page, changes no file of docs
	$(BIN)/python benchmarks/bench.py --quick $(ARGS)
	$(BIN)/python benchmarks/bench_page.py --json build/bench_quick.json --print

bench-large: $(VENV)/dev.stamp ## sums at knots, and ten million rows from Parquet: a quarter of an hour, 2 GB of disk
	$(BIN)/python benchmarks/sums.py --out benchmarks/results/sums.json
	for target in gaussian logistic; do \
		$(BIN)/python benchmarks/large.py $$target --out benchmarks/results/large.json || exit 1; done

bench-growth: $(VENV)/benchmark.stamp ## time and memory by rows, columns, kept and alphas; ARGS=--large adds 10 million rows
	$(BIN)/python benchmarks/growth.py $(ARGS)
	$(BIN)/python benchmarks/bench_page.py

bench-path: bench-environments ## the convex path beside adelie and skglm: some minutes
	$(BIN)/python benchmarks/wide_path.py benchmarks/results/wide_path.json
	$(BIN)/python benchmarks/bench_page.py

bench-environments: $(VENV)/benchmark.stamp ## environments for the peers that need one, in build/peers or SPARSENAM_PEERS
	$(BIN)/python benchmarks/bench_environments.py

pairs: $(VENV)/benchmark.stamp ## pairs beside EBM and LightGBM, false pairs, planted ones: an hour
	for task in california poisson false friedman screen wide; do $(BIN)/python benchmarks/pairs.py $$task || exit 1; done
	$(BIN)/python benchmarks/shapes.py --seeds 8 --out benchmarks/results/shapes.json

signals: $(VENV)/benchmark.stamp ## weak, mixed and real signals beside their peers: two hours
	for table in weak200x10 weak400x30 weak1000x40 weak500x60 logistic500x30 mix1000x50 null400x30 diabetes \
		breast_cancer wine labels stability roworder regression60 classification60 ar20 wide10 compas8 california3 \
		superconductivity1 genes mixed30k mixed2300x73 compas_raw skewed judges; do \
		$(BIN)/python benchmarks/signals.py $$table || exit 1; done

coverage: $(VENV)/benchmark.stamp $(VENV)/dev.stamp ## how often guarantees hold, in simulation, and docs/guarantees.md: three hours
	$(BIN)/python benchmarks/discoveries.py few normal ar5 ar7 t3 mixed quadratic logistic \
		--out benchmarks/results/discoveries.json
	for table in gaussian gaussian_ar7 mild mild_ar7 weak poisson gamma logistic paper; do \
		$(BIN)/python benchmarks/bands.py $$table --out benchmarks/results/bands_$$table.json || exit 1; done
	$(BIN)/python benchmarks/intervals.py california hetero paper200 paper500 poisson gamma weak hundred wide classes \
		--coverage-alone --repeats 100 --first 0 --out benchmarks/results/intervals.json
	$(BIN)/python benchmarks/intervals.py california hetero poisson gamma classes --repeats 5 \
		--out benchmarks/results/intervals_peers.json
	$(BIN)/python benchmarks/audits.py --out benchmarks/results/audits.json
	$(BIN)/python benchmarks/guarantees.py

reproduce: $(VENV)/dev.stamp ## every table and theorem of the paper: goes on from paper/results; ARGS=--figures draws too
	$(BIN)/python -m paper all $(ARGS)

docs: $(VENV)/docs.stamp ## the documentation site in build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

capabilities: $(VENV)/dev.stamp ## docs/capabilities.md anew, from what tests/matrix declares
	PYTHONPATH=tests $(BIN)/python -m matrix

gallery: $(VENV)/dev.stamp ## the pictures of the gallery, drawn anew in docs/images/gallery
	$(BIN)/python docs/gallery/draw.py

package: $(VENV)/release.stamp ## wheel and sdist, checked, installed into an empty environment and used there
	$(BIN)/python tools/package.py

# Packages named in LOWEST_PINNED keep the version of constraints.txt: the lowest torch is on the index with CUDA alone.
LOWEST_PINNED ?= torch
LOWEST := build/lowest
# old libraries call new ones in ways that these deprecate; nobody can mend that
OLD_LIBRARIES := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

lowest: ## the tests of the library itself with the lowest versions that pyproject.toml allows
	@mkdir -p $(LOWEST)
	$(PYTHON) tools/lowest.py --pinned $(LOWEST_PINNED) > $(LOWEST)/constraints.txt
	$(PYTHON) -m venv $(LOWEST)/venv
	$(LOWEST)/venv/bin/python -m pip install -q --disable-pip-version-check --constraint $(LOWEST)/constraints.txt -e ".[test-core]"
	OMP_NUM_THREADS=1 $(LOWEST)/venv/bin/python -m pytest -n auto --dist loadgroup -p no:cacheprovider $(OLD_LIBRARIES) @tools/core_tests.txt

lock: $(VENV)/runtime.stamp ## locked/*.txt anew, after constraints.txt or an extra has changed
	$(PIP_INSTALL) "uv>=0.9"
	$(BIN)/python tools/lock.py

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src paper tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit("sparsenam needs Python 3.11 or newer, this is %d.%d: try make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.stamp: $(PINS) locked/runtime.txt | $(BIN)/pip
	$(PIP_HASHED) locked/runtime.txt
	$(PIP_INSTALL) -e ".[cli]"
	@touch $@

$(VENV)/browser.stamp: $(VENV)/dev.stamp
	$(PIP_INSTALL) -e ".[dev,browser]"
	@touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP_INSTALL) -e ".[dev,docs]"
	@touch $@

$(VENV)/release.stamp: $(VENV)/runtime.stamp
	$(PIP_INSTALL) -e ".[cli,release]"
	@touch $@

$(VENV)/benchmark.stamp: $(VENV)/dev.stamp
	$(PIP_INSTALL) -e ".[dev,benchmark]"
	@touch $@

$(VENV)/dev.stamp: $(VENV)/runtime.stamp locked/dev.txt
	$(PIP_HASHED) locked/dev.txt
	$(PIP_INSTALL) -e ".[dev]"
	@touch $@

# MLflow asks for an older pandas than .venv has: what it needs goes before the libraries of .venv, which are used too
build/mlflow-venv/stamp: $(VENV)/dev.stamp
	$(BIN)/python -m venv build/mlflow-venv
	$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
		> "$$(build/mlflow-venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/beside.pth"
	build/mlflow-venv/bin/python -m pip install -q --disable-pip-version-check \
		"mlflow-skinny>=3" "pandas>=2.2,<3" sqlalchemy alembic plotly dash ipython
	@touch $@
