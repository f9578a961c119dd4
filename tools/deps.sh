#!/bin/bash
# deps.sh TARGET...: installs with apt the missing packages that the build and these make targets
# need, and prints why each is needed. It does nothing if none is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# target   program             package            why
needs='
build      /etc/ssl/certs/ca-certificates.crt ca-certificates has the certificates by which Go modules are fetched
generate   clang-14            clang-14           compiles bpf/ and sim/
generate   llvm-strip-14       llvm-14            strips debug information from BPF objects
generate   ld.lld-14           lld-14             links sim/ for both architectures
generate   /usr/include/bpf/bpf_helpers.h libbpf-dev  declares the helper functions for bpf/
generate   /usr/include/linux/bpf.h linux-libc-dev    has the kernel headers for bpf/
generate   node                nodejs             builds the page of the dashboard
generate   npm                 npm                fetches what that is built with
test       clang-14            clang-14           compiles programs that the tests trace
test       llvm-strip-14       llvm-14            strips debug information from BPF objects
test       ld.lld-14           lld-14             links what the tests trace
test       gcc                 gcc                compiles programs that the tests trace
test       gdb                 gdb                says what stacks are
test       readelf             binutils           says what tables for unwinding hold
test       clang++-14          clang-14           compiles C++ whose names and exceptions are read
test       /usr/include/stdio.h libc6-dev        has the C headers that programs need
test       llvm-symbolizer-14  llvm-14            says what lies at an address, to compare
test       objcopy             binutils           takes debugging information out of programs
test       python3             python3            runs programs whose stacks are read
interop    g++                 g++                compiles C++ whose debugging information is read
interop    curl                curl               fetches the beginning of a package of NVIDIA
interop    qemu-system-x86_64  qemu-system-x86    boots older kernels for the tests in test/guests
interop    clickhouse-server   clickhouse-server  takes what is copied to a cluster
interop    java                default-jre-headless runs the ZooKeeper that a cluster needs
interop    /usr/share/java/zookeeper.jar zookeeper  keeps the replicas of a cluster in step
interop    prometheus          prometheus         scrapes what a trace serves, and checks metrics and rules
interop    node                nodejs             runs the tests of the page of the dashboard, and another MCP client
interop    npm                 npm                fetches what those are made with
interop    slurmctld           slurmctld          runs jobs whose epilog writes a report
interop    slurmd              slurmd             runs them on this machine
interop    sbatch              slurm-client       submits them
interop    munged              munge              says to those two who is who
interop    ip                  iproute2           makes network namespaces for the tests
interop    chromium            chromium           draws the page of the dashboard
interop    xz                  xz-utils           unpacks headers of NVIDIA
interop    dpkg                dpkg               unpacks those kernels
interop    rpm                 rpm                looks into the rpm
interop    rpm2cpio            rpm2cpio           unpacks the rpm
interop    cpio                cpio               unpacks the rpm
interop    systemd-analyze     systemd            checks the unit, and knows groups of system calls
interop    unshare             util-linux         tries packages on a file system that is thrown away
interop    git                 git                says which commit is packed
real       clang-14            clang-14           compiles cuBLAS and cuDNN of the simulated stack
real       ld.lld-14           lld-14             links them
real       dpkg                dpkg               unpacks packages of PyTorch
real       /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring knows who signs them
real       unshare             util-linux         runs programs on a root of their own
lint       clang-format-14     clang-format-14    checks the layout of C
lint       shellcheck          shellcheck         checks shell scripts
lint       node                nodejs             checks the types of the page of the dashboard
lint       npm                 npm                fetches what checks them
vmlinux    clang-14            clang-14           reads bpf/vmlinux
vmlinux    /usr/include/linux/bpf.h linux-libc-dev    has the kernel headers for bpf/
vmlinux    bpftool             bpftool            prints the types of the running kernel
nightly    qemu-system-aarch64 qemu-system-arm   boots kernels of arm64
'

go_wanted=1.26
have_go() {
	local version
	version=$(go env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9.]*\).*/\1/p')
	[ -n "$version" ] && printf '%s\n%s\n' "$go_wanted" "$version" | sort -CV
}
if ! have_go; then
	echo "deps: ingero is built with Go $go_wanted or newer, and 'go' is $(go env GOVERSION 2>/dev/null || echo absent)" >&2
	echo "      install it (https://go.dev/doc/install) and put it in PATH" >&2
	exit 1
fi

missing=()
for target in build "$@"; do
	while read -r for program package why; do
		[ "$for" = "$target" ] || continue
		case $program in
		/*) [ -e "$program" ] && continue ;;
		*) PATH=$PATH:/usr/sbin command -v "$program" >/dev/null && continue ;;
		esac
		case " ${missing[*]} " in *" $package "*) continue ;; esac
		echo "deps: $package is missing: it $why"
		missing+=("$package")
	done <<<"$needs"
done
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: this needs root, and there is no sudo; as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	root=(sudo)
fi
if ! command -v apt-get >/dev/null; then
	echo "deps: there is no apt-get here; install what answers to ${missing[*]} by other means" >&2
	exit 1
fi
echo "deps: installing ${missing[*]}"
install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}")
"${root[@]}" apt-get update -qq || echo "deps: apt-get update did not succeed; trying with the lists at hand" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "${root[@]}" "${install[@]}" >"$log" 2>&1; then
	cat "$log" >&2
	echo "deps: apt-get could not install ${missing[*]}" >&2
	exit 1
fi
