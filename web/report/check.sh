#!/bin/sh
# Type-checks the report's modules, builds them again and wants no difference from what is committed.
set -eu
cd "$(dirname "$0")"
command -v node >/dev/null || { echo "report-check: needs Node" >&2; exit 2; }
[ -d node_modules ] || npm ci --no-audit --no-fund --silent
node_modules/.bin/tsc --strict -p .
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
node build.mjs "$dir"
for f in report.js report.css; do
	cmp "$dir/$f" "../../internal/report/dist/$f" || {
		echo "report-check: internal/report/dist/$f is not what web/report builds; run: npm run build" >&2
		exit 1
	}
done
echo "report-check: ok"
