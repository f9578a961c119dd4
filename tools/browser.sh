#!/bin/bash
# browser.sh: downloads the Chromium driver for the dashboard page's tests into bin/browser, once:
# the packages of test/browser/package-lock.json, checked by their hashes.
set -euo pipefail
cd "$(dirname "$0")/.."

to=$PWD/bin/browser
version=$(cat test/browser/package.json test/browser/package-lock.json | sha256sum | cut -c1-16)
if [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
	rm -rf "$to"
	mkdir -p "$to"
	cp test/browser/package.json test/browser/package-lock.json "$to/"
	npm ci --prefix "$to" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
	echo "$version" >"$to/version"
fi
ls -d "$to/node_modules"
