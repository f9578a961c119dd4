#!/bin/bash
# npm.sh DIR: downloads the packages of DIR/package-lock.json once, checked by versions and hashes,
# and prints the path of their node_modules in the user's cache.
set -euo pipefail
cd "$(dirname "$0")/../$1"

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ingero-npm/$(cat package.json package-lock.json | sha256sum | cut -c1-16)
if [ ! -e "$cache/ready" ]; then
	mkdir -p "$cache"
	cp package.json package-lock.json "$cache/"
	npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
	touch "$cache/ready"
fi
echo "$cache/node_modules"
