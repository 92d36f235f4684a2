# Every command sets up what it needs, says what it does, may be interrupted and run again, and does nothing twice.
PYTHON3 ?= python3
# `make figures NAME=rate-1`, `make bench ROW=kernel`, `make lab FEATURES=cpu WITH="candle-transformers regex@1.11"`
NAME ?=
ROW ?=
FEATURES ?=
WITH ?=
# `make marks FILES="handed-in/*.ipynb" RUN=1`, `make lab FOLDER=target/solutions`
FILES ?=
RUN ?=
FOLDER ?= notebooks
ifneq ($(strip $(FEATURES)),)
export LASTLAYER_FEATURES := $(FEATURES)
endif
ifneq ($(strip $(WITH)),)
export LASTLAYER_WITH := $(WITH)
endif

SETUP := $(PYTHON3) scripts/setup.py
IN_LAB := $(SETUP) exec
# Jupyter gives a kernel up, and its session with it, that is not ready after a minute: on a busy machine ours may not be.
PATIENCE := --MappingKernelManager.kernel_info_timeout=600
# Jupyter refuses root, which is what one is in a container, unless told.
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help lab figures notebooks nudged solutions marks experiments test book bench cuda-test cuda-report cuda-check clean clean-all
.DEFAULT_GOAL := help

help:
	@echo "make lab          JupyterLab on the notebooks, with the kernel ready (first time 20 minutes, then seconds);"
	@echo "                  WITH=\"candle-transformers\" builds other crates for its cells"
	@echo "make figures      figures/ for a paper: runs the notebooks that changed, packs figures, tables and references;"
	@echo "                  NAME=tour-1 exports one figure"
	@echo "make test         everything CI runs (about 25 minutes, an hour on a new machine)"
	@echo "make book         the book with the notebooks in it, served on this machine"
	@echo "make bench        our times beside those of the peers; ROW=kernel runs one row, ROW=table prints what is recorded"
	@echo "make experiments  the multi-seed studies (hours); ROW=name runs one, SHARD=i/n a part of it"
	@echo "make solutions    the teacher's notebooks, every exercise solved, in target/solutions (about 5 minutes)"
	@echo "make marks        who solved which exercise: FILES=\"handed-in/*.ipynb\"; RUN=1 runs them anew"
	@echo "make notebooks    runs every notebook and writes its outputs back, before a commit"
	@echo "make nudged       every notebook three times with drawn parameters moved by 1e-7: does what it says still hold? (about 15 minutes)"
	@echo "make cuda-test    tests, notebooks and studies on a CUDA device made of the CPU (an hour, no GPU needed)"
	@echo "make cuda-report  tests, notebooks and times of steps on your GPU, in one file to send (without a GPU, as cuda-test)"
	@echo "make cuda-check   compiles the CUDA feature with a toolkit from PyPI (about 10 minutes, no GPU needed)"
	@echo "make clean        removes builds and outputs; make clean-all also the tools in ~/.cache/lastlayer"

lab:
	@$(SETUP) lab
	@echo "lastlayer: a kernel needs about 15 seconds to its first result; the browser opens now"
	@$(IN_LAB) jupyter lab --notebook-dir=$(FOLDER) $(PATIENCE) $(ROOT_FLAG) $(LAB_FLAGS)

figures:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/figures.py $(NAME)

notebooks:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/notebook.py update $(NAME)

nudged:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/notebook.py nudged $(NAME)

solutions:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/solutions.py $(NAME)

marks:
ifeq ($(strip $(RUN)),)
	@$(PYTHON3) scripts/marks.py $(FILES)
else
	@$(SETUP) figures
	@$(IN_LAB) python scripts/marks.py --run $(FILES)
endif

experiments:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/experiments.py $(ROW)

test:
	@$(SETUP) test
	@$(IN_LAB) python scripts/test.py

book:
	@$(SETUP) book
	@test -f figures/figures.tex || $(MAKE) --no-print-directory figures
	@$(IN_LAB) python scripts/book.py build
	@$(IN_LAB) python scripts/book.py check
	@$(IN_LAB) python scripts/book.py serve

bench:
	@$(SETUP) bench
	@$(IN_LAB) python benches/run.py $(ROW)

cuda-test:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/cuda_test.py

cuda-report:
	@$(SETUP) figures
	@$(IN_LAB) python scripts/cuda_report.py

cuda-check:
	@$(PYTHON3) scripts/cuda_check.py

clean:
	rm -rf target figures runs

clean-all: clean
	rm -rf "$${LASTLAYER_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/lastlayer}"
