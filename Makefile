# `make run` sets everything up, records a real program and shows what translation costs it.
# `make test` passes all tests. `make help` lists the rest. Nothing is rebuilt that has not changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build
RESULTS := results

# Set-up installs a Rust of its own where the one on the PATH is missing or too old; the file says
# which it is, and every recipe that needs cargo reads it.
WITH_RUST := . $(BUILD)/rust.env &&

# Names of targets are separated by spaces, and some are absolute.
ifneq ($(words $(CURDIR)),1)
$(error The folder's name has a space: $(CURDIR). Make cannot work there; move the project to a folder without one)
endif

# The scripts of a virtual environment name its folder.
SET_UP_AS := $(patsubst %/$(BIN)/python,%,$(filter %/$(BIN)/python,$(shell sed -n '1s/^\#!//p' $(BIN)/mmulab 2>/dev/null)))
ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),help)),)
ifneq ($(or $(SET_UP_AS),$(CURDIR)),$(CURDIR))
$(error The project was set up as $(SET_UP_AS) and moved since. Type make clean, then make $(MAKECMDGOALS))
endif
endif

# Packages are installed by several recipes, and two cannot at a time; what is worth it runs in parallel by itself.
.NOTPARALLEL:

.DEFAULT_GOAL := help
.PHONY: help run validate reproduce setup setup-arm recorder test test-rust test-python wheels lint bench guests linux linux-smp linux-debian linux-migration linux-migration-test linux-spaces linux-spaces-test conformance timing fuzz clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 22

# ---- set-up ------------------------------------------------------------------------------------
# One small target per need, each remembered by a file in build/. Debian packages are installed
# where that is possible without asking (as root, or by sudo without a password).

setup: $(BUILD)/extension recorder ## Build the extension, the virtual environment and the recorder.

# $(call debian,PACKAGES,WHAT FOR): installs what is missing, or says what to type.
define debian
	missing=""; for package in $(1); do \
	  dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root=sudo; else \
	  echo "Missing Debian packages for $(2). Type: sudo apt-get install$$missing" >&2; exit 1; fi; \
	echo "Installing$$missing for $(2)"; \
	$$as_root apt-get update -qq && \
	$$as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
	  apt-get install -qq -y --no-install-recommends $$missing >/dev/null || { \
	  echo "apt-get could not install$$missing. Does /etc/apt name Debian's archives, that of security updates among them?" >&2; exit 1; }
endef

# $(call pip-install,PACKAGE): into the virtual environment; what pip says of an index that it cannot reach misleads.
comma := ,
define pip-install
	$(BIN)/python -m pip install --quiet $(1) || { \
	  echo "pip could not install $(1). Is the package index reachable (network, proxy, PIP_INDEX_URL)? Then type make again" >&2; exit 1; }
endef

$(BUILD)/system:
	@$(call debian,build-essential pkg-config python3-venv,building)
	@mkdir -p $(BUILD) && touch $@

# The recorder needs Valgrind. Without it everything but `record` and `run` works, so that a
# failure here is not fatal; the recorder's target tells it.
$(BUILD)/valgrind-was-asked-for:
	@( $(call debian,valgrind,recording programs) ) 2>/dev/null || true
	@mkdir -p $(BUILD) && touch $@

# The cross compiler of the ARM guests, and QEMU: the oracle of the ARM machines, and what records ARM programs.
setup-arm: $(BUILD)/arm-tools ## Install the ARM cross compiler and QEMU.

$(BUILD)/arm-tools:
	@$(call debian,gcc-arm-none-eabi qemu-system-arm qemu-user device-tree-compiler,the ARM guests)
	@mkdir -p $(BUILD) && touch $@

$(VENV)/ready: | $(BUILD)/system
	@echo "Making the virtual environment $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mmulab needs Python 3.11 or newer: make PYTHON=...")'
	@$(call pip-install,'maturin>=1.14$(comma)<2')
	@touch $@

$(BUILD)/rust.env: $(VENV)/ready
	@version=$$(cargo --version 2>/dev/null | cut -d' ' -f2); \
	if printf '1.88.0\n%s\n' "$$version" | sort -VC; then : > $@; else \
	  home=$(CURDIR)/$(BUILD)/rust; \
	  echo "No Rust of 1.88 or newer found; installing it into $$home"; \
	  { $(call pip-install,puccinialin); } && \
	  { $(BIN)/python -m puccinialin --location $$home --info-json $(BUILD)/rust.json >$(BUILD)/rust.log 2>&1 || { \
	    tail -n 1 $(BUILD)/rust.log >&2; \
	    echo "Rust could not be installed ($(BUILD)/rust.log). Install 1.88 or newer (Debian 12: apt-get install rustc-web cargo-web; else https://rustup.rs) and type make again" >&2; \
	    exit 1; }; } && \
	  echo "export RUSTUP_HOME=$$home/rustup CARGO_HOME=$$home/cargo PATH=$$home/cargo/bin:\$$PATH" > $@; \
	fi

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name fuzz -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print)

$(BUILD)/extension: pyproject.toml $(RUST_SOURCES) $(VENV)/ready $(BUILD)/rust.env
	@echo "Building the engine; the first time takes a few minutes"
	@$(WITH_RUST) log=$(BUILD)/maturin.log; : >$$log; \
	if [ -t 2 ]; then \
	  while sleep 2 && kill -0 $$$$ 2>/dev/null; do printf '\r%s crates compiled' "$$(grep -c Compiling $$log)" >&2; done & shown=$$!; \
	fi; \
	PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --extras test >$$log 2>&1; built=$$?; \
	if [ -n "$$shown" ]; then kill $$shown; printf '\r%40s\r' '' >&2; fi; \
	if [ $$built != 0 ]; then grep -v '^ *Compiling' $$log; exit 1; fi
	@touch $@

recorder: $(BUILD)/valgrind-was-asked-for ## Build the recorders: a Valgrind tool and a plugin for QEMU.
	@$(MAKE) --no-print-directory --silent -C recorders/qemu OUTPUT=$(CURDIR)/$(BUILD)/valgrind
	@if pkg-config --exists valgrind; then \
	  $(MAKE) --no-print-directory --silent -C recorders/valgrind OUTPUT=$(CURDIR)/$(BUILD)/valgrind; \
	else echo "Valgrind is not installed: all but recording works. Type: sudo apt-get install valgrind" >&2; fi

wheels: setup ## Build the Python packages mmulab and mmulab-recorder into build/wheels.
	@$(WITH_RUST) $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(BUILD)/wheels . recorders/valgrind
	@ls $(BUILD)/wheels/*.whl

# The programs that stand for those of the 1998 study; its test is skipped without them.
$(BUILD)/study-programs:
	-@$(call debian,gcc libjpeg-turbo-progs,the programs of the 1998 study)
	@mkdir -p $(BUILD) && touch $@

# ---- the main job ------------------------------------------------------------------------------

run: setup ## Record the C compiler at work and show what translation costs it, machine by machine.
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/first_run.sh $(RESULTS)/first-run

reproduce: setup setup-arm $(BUILD)/study-programs ## Install what the papers' programs need, and reproduce all papers; Error 1 says that claims differ.
	@$(BIN)/mmulab reproduce

# ---- tests -------------------------------------------------------------------------------------

test: test-rust test-python ## Pass all tests.

# The same random programs and machines each time; cargo test by itself draws others.
test-rust: setup
	$(WITH_RUST) PROPTEST_RNG_SEED=1 cargo test --quiet --release --no-fail-fast --workspace --exclude mmulab-python

test-python: setup setup-arm $(BUILD)/study-programs
	$(BIN)/pytest --quiet --numprocesses logical --maxprocesses 8 --dist loadfile

lint: setup ## Check form and style of Rust and Python, and the types of Python.
	@$(WITH_RUST) { cargo clippy --version && cargo fmt --version; } >/dev/null 2>&1 || { $(WITH_RUST) rustup component add clippy rustfmt; }
	$(WITH_RUST) cargo fmt --check
	$(WITH_RUST) cargo clippy --quiet --release --workspace --all-targets -- -D warnings
	$(BIN)/ruff check python tests examples guests benches crates
	$(BIN)/ruff format --check python tests examples guests benches crates
	$(BIN)/mypy

bench: setup ## Measure speed beside the peers; results of record are in benches/README.md.
	$(WITH_RUST) $(BIN)/python benches/run.py
	@if [ -e $(BUILD)/linux/kernel/Image ]; then $(BIN)/python benches/arm.py; else echo "make linux first to measure the ARM machine too" >&2; fi

validate: setup ## Compare what huge pages save on this computer with what its machine predicts.
	$(BIN)/python benches/validate.py

guests: setup-arm ## Build the kernels that the ARM machines boot, into build/guests.
	@for guest in $(filter-out guests/linux/Makefile,$(wildcard guests/*/Makefile)); do \
	  echo "Building $$(dirname $$guest)"; $(MAKE) --no-print-directory --silent -C $$(dirname $$guest) || exit 1; done

$(BUILD)/linux-tools:
	@$(call debian,linux-source-6.12 gcc-arm-linux-gnueabi gcc-arm-none-eabi libc6-dev-armel-cross flex bison bc cpio device-tree-compiler libssl-dev libelf-dev xz-utils gzip,building Linux)
	@mkdir -p $(BUILD) && touch $@

linux: $(BUILD)/linux-tools ## Fetch, configure and build the Linux guest (minutes) into build/linux.
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux

linux-smp: $(BUILD)/linux-tools ## Build Linux for four Cortex-A7 (minutes).
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux smp

linux-migration: $(BUILD)/linux-tools ## Build Linux whose tasks take TLB entries to another core (minutes).
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux migration

linux-migration-test: linux-migration ## Build it so that guests/linux/leave_out_migration.py can leave things out (minutes).
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux migration-test

$(BUILD)/debian-tools: $(BUILD)/arm-tools
	@$(call debian,cpio dpkg debian-archive-keyring,unpacking Debian for armhf)
	@touch $@

linux-debian: $(BUILD)/debian-tools ## Fetch Debian's own ARMv7 kernel and programs for four Cortex-A7 (minutes).
	@$(MAKE) --no-print-directory -C guests/linux/debian OUT=$(CURDIR)/$(BUILD)/debian

linux-spaces: $(BUILD)/linux-tools ## Build Linux with address spaces that switch without flushing (minutes).
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux spaces

linux-spaces-test: linux-spaces ## Build it so that guests/linux/leave_out.py can leave things out (minutes).
	@$(MAKE) --no-print-directory -C guests/linux OUT=$(CURDIR)/$(BUILD)/linux spaces-test

timing: setup setup-arm ## Measure timings on the ARM machines, by the guest itself.
	$(BIN)/python guests/timing/run.py

conformance: setup setup-arm ## Compare the ARM machines with QEMU: a million instructions, the MMU.
	$(BIN)/python guests/conformance/run.py

FUZZ_SECONDS ?= 60
fuzz: $(BUILD)/rust.env ## Fuzz the readers of traces and machines, a minute each; needs rustup with nightly, cargo-fuzz.
	@$(WITH_RUST) cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo "Fuzzing needs rustup with nightly and cargo-fuzz. Type: . $(BUILD)/rust.env; rustup toolchain install nightly && cargo install cargo-fuzz" >&2; exit 1; }
	@$(WITH_RUST) for target in trace:mmt trace:mmt_streams trace:foreign trace:packed machine:machine; do \
	  (cd crates/$${target%:*} && cargo +nightly fuzz run $${target#*:} -- -max_total_time=$(FUZZ_SECONDS)) || exit 1; \
	done

clean: ## Forget what was built; results stay.
	rm -rf $(BUILD) $(VENV) target
