#!/bin/sh
# install-deps.sh: installs what building and testing ingero needs. tools/deps.sh knows what.
exec "$(dirname "$0")/../tools/deps.sh" build generate test lint vmlinux
