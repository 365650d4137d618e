# The two commands to know: `make demo` and `make test`. The fast path: `make lint build check`.

VERSION     := $(shell sed -n 's/^var version = "\(.*\)"/\1/p' squall.go)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GO_BUILD    := CGO_ENABLED=0 go build -trimpath
LDFLAGS     := -s -w -X github.com/squallhq/squall.version=$(VERSION)

.PHONY: build shop demo test check lint tools cross bench soak fuzz report clean

build: ## bin/squall, static
	@$(GO_BUILD) -ldflags '$(LDFLAGS)' -o bin/squall ./cmd/squall

shop: examples/shop/shop_buggy.star ## the example system
	@$(GO_BUILD) -o examples/shop/bin/ ./examples/shop/...

examples/shop/shop_buggy.star: examples/shop/shop.star
	@sed 's/^BUGGY = False/BUGGY = True/' $< >$@

tools:
	@$(GO_BUILD) -o bin/tools/ ./scripts/...

demo: ## a bug is hunted and found
	@start=$$(date +%s); $(MAKE) -s build shop tools && \
	printf 'squall %s (static, %d MB)   built in %d s\n' '$(VERSION)' \
		$$(( $$(wc -c <bin/squall) / 1000000 )) $$(( $$(date +%s) - start ))
	@bin/tools/demo bin/squall examples/shop/shop_buggy.star

test: ## everything; installs Debian packages where it is root
	@scripts/packages
	@$(MAKE) -s build shop tools lint
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

clean:
	rm -rf bin examples/shop/bin examples/shop/shop_buggy.star .squall
