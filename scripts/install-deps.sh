#!/bin/sh
# install-deps.sh: installs the packages that building and testing ingero need: see tools/deps.sh.
exec "$(dirname "$0")/../tools/deps.sh" build generate test lint vmlinux
