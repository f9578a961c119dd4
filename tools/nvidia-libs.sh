#!/bin/bash
# nvidia-libs.sh: puts NVIDIA's own CUDA libraries, and the headers with their functions'
# signatures, into bin/nvidia/, for tests and benchmarks on the real libraries. They come from
# Debian's non-free and contrib components, are unpacked but not installed, and are never part of
# ingero. Without a GPU their calls return errors, which is enough to trace them.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=$(dpkg --print-architecture)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# This machine's Debian mirror.
# shellcheck disable=SC2016
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$')}

# prepare SUITE: sets dir, and apt to an apt command for the suite's packages
prepare() {
	dir=$PWD/bin/nvidia/$1
	mkdir -p "$dir/lists/partial" "$dir/debs"
	echo "deb [signed-by=$keyring] $mirror $1 non-free contrib" >"$dir/sources.list"
	apt=(apt-get -qq -oDir::Etc::sourcelist="$dir/sources.list" -oDir::Etc::sourceparts=-
		-oDir::State::lists="$dir/lists" -oAPT::Sandbox::User=root)
	"${apt[@]}" update
}

# fetch SUITE PACKAGE...: unpacks libraries into bin/nvidia/SUITE
fetch() {
	local suite=$1 deb
	shift
	[ -e "bin/nvidia/$suite/done" ] && return
	rm -rf "bin/nvidia/$suite"
	prepare "$suite"
	(cd "$dir/debs" && "${apt[@]}" download "${@/%/:$arch}")
	for deb in "$dir"/debs/*.deb; do
		dpkg -x "$deb" "$dir"
	done
	rm -rf "$dir/lists" "$dir/debs"
	touch "$dir/done"
}

# part OFFSET BYTES: prints a field of the package's header
part() { dd if="$dir/debs/start" iflag=skip_bytes,count_bytes skip="$1" count="$2" status=none | tr -d ' /'; }

# headers SUITE PACKAGE FILE...: puts headers into bin/nvidia/SUITE/include. The packages are large,
# but their beginning contains the headers.
headers() {
	local suite=$1 package=$2 file url at=8 name size
	shift 2
	[ -e "bin/nvidia/$suite/include/${!#}" ] && return
	prepare "$suite"
	url=$("${apt[@]}" --print-uris download "$package:$arch" | cut -d"'" -f2)
	curl -sSf --retry 3 --range 0-16777215 -o "$dir/debs/start" "$url"
	while # members of an ar archive: a header of 60 bytes, then the data, padded to an even offset
		name=$(part $at 16)
		[[ $name != data.tar* ]]
	do
		size=$(part $((at + 48)) 10)
		at=$((at + 60 + size + size % 2))
	done
	mkdir -p "$dir/debs/data" "$dir/include"
	# Both report that the end of the file is missing.
	(tail -c +$((at + 61)) "$dir/debs/start" | xz -dc | tar -x -C "$dir/debs/data" --wildcards '*.h') 2>/dev/null || true
	for file; do
		find "$dir/debs/data" -name "$file" -exec cp {} "$dir/include" \;
		[ -e "$dir/include/$file" ]
	done
	rm -rf "$dir/lists" "$dir/debs"
}

fetch bookworm libcuda1 libcudart11.0
fetch trixie libcuda1 libcudart12
cuda=(cuda.h cuda_runtime_api.h driver_types.h host_runtime.h)
headers bookworm nvidia-cuda-dev "${cuda[@]}"
headers trixie nvidia-cuda-dev "${cuda[@]}"
headers trixie libnccl-dev nccl.h
find bin/nvidia -name 'libcud*.so.*.*' -type f -o -name '*.h' -path '*/include/*'
