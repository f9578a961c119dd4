#!/bin/bash
# torch-root.sh: creates a root directory with the CUDA build of PyTorch, numba and pycuda from
# Debian, and the simulated stack in place of the driver, the runtime, cuBLAS and cuDNN, for make
# test-real. Packages are unpacked, never installed, and are not part of ingero. Downloads and
# unpacked packages are kept.
#
#   torch-root.sh          download, unpack, add the simulated libraries
#   torch-root.sh size     print what would be downloaded, and its size
#
# TORCH_ROOT is its path (default bin/torch); DEBIAN_MIRROR the mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=trixie
arch=$(dpkg --print-architecture)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# This machine's Debian mirror.
# shellcheck disable=SC2016
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$')}
dir=${TORCH_ROOT:-bin/torch}
packages=(python3-torch-cuda python3-numba python3-pycuda libnvvm4 dash coreutils libc-bin)
# Libraries that the simulated stack replaces, or that the programs do not need.
instead=(nvidia-cuda-dev nvidia-cuda-toolkit libcuda1 libcudart12 libcublas12 libcublaslt12 nvidia-cudnn libnccl2 libnvtoolsext1)

mkdir -p "$dir"/apt/{none,lists/partial} "$dir/apt/cache/archives/partial" "$dir/unpacked" "$dir/root"
dir=$(cd "$dir" && pwd)
root=$dir/root
apt=(apt-get -qq -oDir::Etc::sourcelist="$dir/apt/sources.list" -oDir::Etc::sourceparts="$dir/apt/none" -oDir::Etc::preferencesparts="$dir/apt/none" -oDir::Etc::preferences="$dir/apt/none"
	-oDir::State="$dir/apt" -oDir::State::lists="$dir/apt/lists" -oDir::State::status="$dir/apt/status"
	-oDir::Cache="$dir/apt/cache" -oAPT::Sandbox::User=root -oAPT::Install-Recommends=false
	-oAPT::Architecture="$arch" -oAPT::Architectures="$arch" -oDebug::NoLocking=1)

# lists: shows apt the suite's packages, with only the replaced ones as installed.
lists() {
	echo "deb [signed-by=$keyring] $mirror $suite main contrib non-free" >"$dir/apt/sources.list"
	[ -e "$dir/apt/fetched" ] || "${apt[@]}" -oDir::State::status=/dev/null update
	touch "$dir/apt/fetched"
	# The replaced packages have the suite's versions, since some packages require them, and are
	# held, so that apt does not take them for older builds.
	apt-cache "${apt[@]:1}" -oDir::State::status=/dev/null -oDir::Cache::pkgcache= -oDir::Cache::srcpkgcache= show "${instead[@]}" |
		awk '/^(Package|Version|Architecture): /
			/^Version: / { print "Status: hold ok installed\nMaintainer: none\nDescription: simulated" }
			/^$/' >"$dir/apt/status"
}

# missing: prints a line for each package to download: URL, file, bytes
missing() { "${apt[@]}" --print-uris -y install "${packages[@]}" | sed -n "/^'/p"; }

# unpack FILE
unpack() {
	local name=${1##*/}
	[ -e "$dir/unpacked/$name" ] && return
	dpkg -x "$1" "$root"
	touch "$dir/unpacked/$name"
}

# device: unpacks numba's device library, from a package whose other files are not needed
device() {
	[ -e "$dir/unpacked/libdevice" ] && return
	(cd "$dir" && "${apt[@]}" download nvidia-cuda-toolkit)
	dpkg --fsys-tarfile "$dir"/nvidia-cuda-toolkit_*.deb | tar -x -C "$root" --wildcards '*/libdevice*'
	rm "$dir"/nvidia-cuda-toolkit_*.deb
	touch "$dir/unpacked/libdevice"
}

# Replaces the packages' install scripts.
configure() {
	local lib
	lib=usr/lib/$(uname -m)-linux-gnu
	mkdir -p "$root"/{dev,proc,sys,tmp,root,srv,opt/ingero,etc}
	chmod 1777 "$root/tmp"
	ln -sfn dash "$root/usr/bin/sh"
	# Names under which numba loads its compiler and the runtime.
	ln -sfn "/$lib/libnvvm.so.4" "$root/opt/ingero/libnvvm.so"
	ln -sfn libcudart.so.12 "$root/opt/ingero/libcudart.so"
	printf '/opt/ingero\n/%s/blas\n/%s/lapack\n/%s\n' "$lib" "$lib" "$lib" >"$root/etc/ld.so.conf"
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
}

for name in bin sbin lib lib64; do
	mkdir -p "$root/usr/$name"
	ln -sfn "usr/$name" "$root/$name"
done
lists
fetch=$(missing)
read -r count size < <(awk 'NF { n++; b += $3 } END { printf "%d %d\n", n, b / 1048576 }' <<<"$fetch")
echo "torch-root: $count packages of $suite to fetch, $size MiB; all take 5 GiB in $dir"
[ "${1:-}" != size ] || exit 0
if ! "${apt[@]}" --download-only -y install "${packages[@]}"; then
	rm "$dir/apt/fetched"
	echo 'torch-root: the download failed. Run it again: it goes on, with new lists of packages' >&2
	exit 1
fi
for deb in "$dir"/apt/cache/archives/*.deb; do
	unpack "$deb"
done
device
configure
sim/build.sh --math "$root/opt/ingero"
cp "sim/prebuilt/$arch"/lib*.so.* "$root/opt/ingero"
/sbin/ldconfig -r "$root"
echo "torch-root: $root"
