#!/bin/bash
# web.sh [check|test]: builds the dashboard's page from internal/dashboard/web/src into
# internal/dashboard/web/assets. check only checks the types, and test runs the tests. tools/npm.sh
# downloads the build tools.
set -euo pipefail
cd "$(dirname "$0")/../internal/dashboard/web"

modules=$(../../../tools/npm.sh internal/dashboard/web)

# The build tools require sources and packages in one directory.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r src test build.mjs package.json tsconfig.json "$work/"
ln -s "$modules" "$work/node_modules"
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
