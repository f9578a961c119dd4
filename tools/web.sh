#!/bin/bash
# web.sh [check|test]: builds the dashboard's page from internal/dashboard/web/src into
# internal/dashboard/web/assets. With check it checks the types alone, with test it runs
# the tests. npm fetches the versions of package-lock.json, by their hashes, once: they
# stay in the user's cache.
set -euo pipefail
cd "$(dirname "$0")/../internal/dashboard/web"

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ingero-web/$(cat package.json package-lock.json | sha256sum | cut -c1-16)
if [ ! -e "$cache/ready" ]; then
	mkdir -p "$cache"
	cp package.json package-lock.json "$cache/"
	npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
	touch "$cache/ready"
fi

# Sources and packages are seen side by side, as the tools want them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r src test build.mjs package.json tsconfig.json "$work/"
ln -s "$cache/node_modules" "$work/node_modules"
cd "$work"
case ${1-} in
check)
	node node_modules/typescript/bin/tsc -p .
	exit
	;;
test)
	node_modules/.bin/esbuild test/logic.test.ts --bundle --platform=node --format=esm --outfile=logic.mjs --log-level=warning
	TZ=UTC node --test logic.mjs
	exit
	;;
esac
node build.mjs "$work/out"
cd "$OLDPWD"
mkdir -p assets
cp "$work/out/"* assets/
