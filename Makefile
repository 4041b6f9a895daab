# Each of these first installs the package in place, into .venv, where it is not there yet:
#   make demo         verify the example pairs with the shipped ensemble
#   make check        lint, and the quick tests: before every commit
#   make lint         ruff and mypy
#   make test         all tests; those that need Docker, Chromium or reference data skip without them
#   make fuzz         the tests of broken input and broken runs, many times over
#   make bench        measure against a plain implementation [ARGS=--quick]
#   make pictures     the README's pictures
#   make train        an ensemble of your own: DATA=documents.jsonl OUT=folder
#   make docker-test  the tests of the image
# And these need nothing but Docker, or nothing at all:
#   make docker       build the image [MODELS=runs/mine]
#   make docker-run   run it: IN=pairs.jsonl OUT=folder
#   make clean        remove .venv and all that was built

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo check lint test fuzz bench pictures train docker docker-run docker-test clean

demo: $(READY)
	$(BIN)/pan21av predict -i examples/pairs.jsonl -o out/demo
	$(BIN)/python examples/show.py out/demo/answers.jsonl examples/truth.jsonl

check: lint
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/python -m pytest

# 200,000 mutated lines, 40,000 odd texts, 20 kills; some minutes.
fuzz: $(READY)
	PAN21AV_FUZZ=100 PAN21AV_KILLS=20 $(BIN)/python -m pytest tests/system/test_fuzz.py tests/system/test_faults.py

bench: $(READY)
	$(BIN)/python benchmarks/bench.py $(ARGS)

# The README's pictures: of the shipped ensemble's validation, and of a page of `explain` (needs Chromium).
pictures: $(READY)
	$(BIN)/python examples/pictures.py

# make train DATA=documents.jsonl.xz OUT=runs/mine [CONFIG=settings.toml] [ARGS="--members 3 --vectors glove.txt"]
# Without CONFIG it takes the recipe of the shipped ensemble, models/default.toml.
DATA   ?=
OUT    ?=
CONFIG ?=
train: $(READY)
	@test -n "$(DATA)" || { echo "usage: make train DATA=documents.jsonl OUT=folder [CONFIG=settings.toml] [ARGS=...]"; exit 2; }
	$(BIN)/pan21av train $(DATA) -o $(or $(OUT),runs/new) $(if $(CONFIG),--config $(CONFIG)) $(ARGS)

# make docker [MODELS=runs/mine]: with an ensemble of your own as the one that answers. It goes into models/, since an
# image is built of nothing but this folder; members of an earlier one of that name do not stay behind.
MODELS ?=
OWN    := $(notdir $(abspath $(MODELS)))
THERE  := $(filter $(abspath models/$(OWN)),$(abspath $(MODELS)))
docker:
ifneq ($(OWN),)
	@test -f "$(MODELS)/ensemble.json" || { echo "$(MODELS) holds no ensemble.json"; exit 2; }
ifeq ($(THERE),)
	@test "$(OWN)" != default || { echo "models/default is the shipped ensemble: give yours another name"; exit 2; }
	mkdir -p models/$(OWN) && rm -f models/$(OWN)/member-*.safetensors
	cp -R "$(MODELS)/." models/$(OWN)
endif
endif
	docker build -t pan21av $(if $(OWN),--build-arg MODELS=$(OWN)) $(ARGS) .

# make docker-run IN=folder-or-file [OUT=out]: as the calling user, without network
IN  ?=
docker-run:
	@test -n "$(IN)" || { echo "usage: make docker-run IN=pairs.jsonl OUT=folder"; exit 2; }
	mkdir -p $(or $(OUT),out)
	docker run --rm --network=none --user $$(id -u):$$(id -g) \
	  -v "$(abspath $(IN)):/input$(suffix $(IN)):ro" -v "$(abspath $(or $(OUT),out)):/output" $(ARGS) \
	  pan21av predict -i /input$(suffix $(IN)) -o /output

docker-test: $(READY)
	$(BIN)/python -m pytest -m docker

clean:
	rm -rf $(VENV) build dist out *.egg-info pan21av/network/_kernel*.so pan21av/data/_ngrams*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The package is installed in place, so only its metadata and the kernel need a new install.
$(READY): pyproject.toml constraints.txt pan21av/network/csrc/kernel.c pan21av/network/csrc/kernel_body.h pan21av/data/csrc/ngrams.c
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev]"
	touch $@
