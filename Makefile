# The two commands to know: `make demo` and `make test`. The fast path: `make lint build check`.

VERSION     := $(shell sed -n 's/^var version = "\(.*\)"/\1/p' squall.go)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GO_BUILD    := CGO_ENABLED=0 go build -trimpath
LDFLAGS     := -s -w -X github.com/squallhq/squall.version=$(VERSION)

POSTGRES    := /usr/lib/postgresql/15/bin/postgres

.PHONY: build shop orders examples demo test check lint tools cross bench soak fuzz docs report clean

build: ## bin/squall, static
	@$(GO_BUILD) -ldflags '$(LDFLAGS)' -o bin/squall ./cmd/squall

shop: examples/shop/shop_buggy.star ## the example that needs nothing but Go
	@$(GO_BUILD) -o examples/shop/bin/ ./examples/shop/...

orders: ## an order service and an inventory; nothing but Go either
	@$(GO_BUILD) -o examples/orders/bin/ ./examples/orders/...

examples: shop orders examples/raft/raft_buggy.star examples/shop-postgres/shop_buggy.star ## all of them
	@cd examples/raft && $(GO_BUILD) -o bin/ ./...
	@cd examples/shop-postgres && $(GO_BUILD) -o bin/ ./...
	@if [ -x $(POSTGRES) ]; then examples/shop-postgres/bin/pg template examples/shop-postgres/bin/template; fi

# A specification with its bug switched on.
%_buggy.star: %.star
	@sed 's/^BUGGY = False/BUGGY = True/' $< >$@

tools:
	@$(GO_BUILD) -o bin/tools/ ./scripts/...

demo: ## a bug is hunted and found
	@start=$$(date +%s); $(MAKE) -s build shop tools && \
	printf 'squall %s (static, %d MB)   built in %d s\n' '$(VERSION)' \
		$$(( $$(wc -c <bin/squall) / 1000000 )) $$(( $$(date +%s) - start ))
	@bin/tools/expect bin/squall examples/shop/shop_buggy.star \
		create_order/disk_full=monitor-violated:confirmed_means_persisted

test: ## everything; installs Debian packages where it is root
	@scripts/packages
	@$(MAKE) -s build examples tools lint
	@if command -v npm >/dev/null; then web/report/check.sh; else echo 'left out: web/report/check.sh: needs npm'; fi
	@bin/tools/testrun

check: ## the tests that need nothing but Go
	go test -short ./...

lint:
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')); \
	[ -z "$$bad" ] || { echo "gofmt differs: $$bad"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

cross: ## what works elsewhere still builds there
	GOOS=darwin GOARCH=arm64 $(GO_BUILD) -o /dev/null ./cmd/squall
	GOOS=darwin GOARCH=amd64 $(GO_BUILD) -o /dev/null ./cmd/squall
	GOOS=linux GOARCH=arm64 $(GO_BUILD) -o /dev/null ./cmd/squall

docs: ## the documentation as HTML, in bin/docs
	@go run ./scripts/site -o bin/docs

report: ## the page of the report, from its TypeScript
	cd web/report && npm ci --silent --no-audit --no-fund && npm run --silent build

# The large runs, in pieces of a few minutes. FUZZTIME is for each target, PACKAGES chooses some;
# SQUALL_BENCH chooses benchmarks; SOAK chooses what is repeated, at the size of the promise.
FUZZTIME ?= 30s
PACKAGES ?= ./...
SOAK     ?= leaves seeds kills

bench: ## both sides in one run, ratios with spread
	@scripts/bench

fuzz:
	@scripts/fuzz $(FUZZTIME) $(PACKAGES)

soak: ## 1,000 leaves, 50 runs of one seed, 20 kills, on a machine kept busy
	@for what in $(SOAK); do \
		case $$what in \
		leaves) SQUALL_SOAK_LEAVES=1000 go test -count=1 -timeout 9m -run TestManyTrivialLeaves -v ./e2e ;; \
		seeds) SQUALL_SOAK_RUNS=50 go test -count=1 -timeout 9m -run TestSameSeedSameRun -v ./e2e ;; \
		kills) SQUALL_SOAK_KILLS=20 go test -count=1 -timeout 9m -run TestKilledAtRandom -v ./e2e ;; \
		*) echo "soak: unknown piece $$what"; exit 2 ;; \
		esac || exit 1; \
	done

clean:
	rm -rf bin examples/*/bin examples/*/*_buggy.star .squall
