#!/bin/bash
# nvidia-libs.sh: puts NVIDIA's own CUDA libraries into bin/nvidia/, for tests and
# benchmarks on the real thing. They come from Debian's non-free component, are
# unpacked and not installed, and are never part of ingero. Without a GPU their
# calls return errors; that is enough to see them made.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=$(dpkg --print-architecture)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The mirror that this machine has for Debian itself.
# shellcheck disable=SC2016
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$')}

# fetch SUITE PACKAGE...: into bin/nvidia/SUITE
fetch() {
	local suite=$1 dir
	shift
	dir=$PWD/bin/nvidia/$suite
	[ -e "$dir/done" ] && return
	rm -rf "$dir"
	mkdir -p "$dir/lists/partial" "$dir/debs"
	echo "deb [signed-by=$keyring] $mirror $suite non-free" >"$dir/sources.list"
	local apt=(apt-get -qq -oDir::Etc::sourcelist="$dir/sources.list" -oDir::Etc::sourceparts=-
		-oDir::State::lists="$dir/lists" -oAPT::Sandbox::User=root)
	"${apt[@]}" update
	(cd "$dir/debs" && "${apt[@]}" download "${@/%/:$arch}")
	for deb in "$dir"/debs/*.deb; do
		dpkg -x "$deb" "$dir"
	done
	rm -rf "$dir/lists" "$dir/debs"
	touch "$dir/done"
}

fetch bookworm libcuda1 libcudart11.0
fetch trixie libcuda1 libcudart12
find bin/nvidia -name 'libcud*.so.*.*' -type f
