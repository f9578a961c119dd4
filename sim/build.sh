#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulated CUDA stack with clang-14 and lld-14, for amd64 and arm64, into prebuilt/.
# The same sources give the same bytes.
#
#   build.sh            build into prebuilt/
#   build.sh DIR        build into DIR
#   build.sh --math DIR build cuBLAS and cuDNN for this machine into DIR. They are large and
#                       only tools/torch-root.sh needs them, so prebuilt/ lacks them
set -eu

here=$(cd "$(dirname "$0")" && pwd)
CLANG=${CLANG:-clang-14}
LLD=${LLD:-ld.lld-14}
export LC_ALL=C
umask 022

common="-std=gnu11 -O2 -ffreestanding -nostdlibinc -fno-ident -fno-stack-protector
	-fasynchronous-unwind-tables -fno-omit-frame-pointer -fno-math-errno
	-Wall -Wextra -Werror -Wno-missing-field-initializers"
# On x86-64, every function of the runtime library begins with a push, so leaf functions need
# frames, and no prologue may move behind an early return.
frames="-mno-omit-leaf-frame-pointer -mllvm -enable-shrink-wrap=false"

# compile ARCH OBJECT SOURCE FLAGS...
compile() {
	arch=$1 obj=$2 src=$3
	shift 3
	case $arch in
	amd64) target="--target=x86_64-linux-gnu -fcf-protection=none" ;;
	arm64) target="--target=aarch64-linux-gnu -mno-outline-atomics" ;;
	esac
	# shellcheck disable=SC2086
	(cd "$here/src" && "$CLANG" $target $common "$@" -c "$src" -o "$obj")
}

# link ARGS...: links with the options that all files share
link() {
	"$LLD" --build-id=sha1 --hash-style=both --eh-frame-hdr -z noexecstack -z relro -z now \
		-z max-page-size=65536 -z defs "$@"
}

# objects ARCH NAME FLAGS SOURCE...: compiles all sources and prints the objects
objects() {
	arch=$1 name=$2 flags=$3
	shift 3
	mkdir -p "$tmp/$arch/$name"
	for src in "$@"; do
		obj=$tmp/$arch/$name/$(echo "$src" | tr / _).o
		# shellcheck disable=SC2086
		compile "$arch" "$obj" "$src" $flags
		echo "$obj"
	done
}

sources() { (cd "$here/src" && ls "$1"/*.[cS]); }

# An empty library, so that the linker records its name and symbols as needed.
stub() { # ARCH MACRO SONAME
	compile "$1" "$tmp/$1/$3.o" libc/stub.S "-D$2"
	"$LLD" -shared -soname "$3" -o "$tmp/$1/$3" "$tmp/$1/$3.o"
}

prepare() { # ARCH DIR
	arch=$1 out=$2
	mkdir -p "$tmp/$arch" "$out"
	case $arch in
	amd64) interp=/lib64/ld-linux-x86-64.so.2 rtflags=$frames ;;
	arm64) interp=/lib/ld-linux-aarch64.so.1 rtflags=-mbranch-protection=standard ;;
	esac
	stub "$arch" LIBC libc.so.6
	stub "$arch" LIBDL libdl.so.2
	stub "$arch" LIBPTHREAD libpthread.so.0
	libs="$tmp/$arch/libc.so.6 $tmp/$arch/libdl.so.2 $tmp/$arch/libpthread.so.0"
	rpath="-rpath \$ORIGIN --enable-new-dtags --as-needed"
}

# shellcheck disable=SC2046,SC2086
build_math() { # ARCH DIR
	prepare "$1" "$2"
	for lib in "libcublas.so.12 launch gemm cublas cublas_no" "libcublasLt.so.12 launch gemm cublaslt" \
		"libcudnn.so.9 launch cudnn norm backend"; do
		set -- $lib
		so=$1
		shift
		objs=$(objects "$arch" "$so" "-fPIC -fvisibility=hidden $rtflags" $(printf 'math/%s.c ' "$@"))
		link -shared -s -soname "$so" --version-script "$here/src/math/$so.map" -o "$out/$so" $rpath \
			$objs "$here/prebuilt/$arch/libcudart.so.12" $libs
		chmod 755 "$out/$so"
	done
}

# shellcheck disable=SC2046,SC2086
build() { # ARCH DIR
	prepare "$1" "$2"
	# An assignment, not an argument: so a failing compiler ends the script.
	objs=$(objects "$arch" cuda "-fPIC -fvisibility=hidden" inject.c counts.c $(sources cuda))
	link -shared -s -Bsymbolic -soname libcuda.so.1 -o "$out/libcuda.so.1" --as-needed $objs $libs
	for v in 11.0 12 13; do
		objs=$(objects "$arch" cudart$v "-fPIC -fvisibility=hidden -DCUDART=${v%.0} $rtflags" \
			inject.c counts.c $(sources cudart))
		link -shared -s -soname libcudart.so.$v --version-script "$here/src/cudart/libcudart.so.$v.map" \
			-o "$out/libcudart.so.$v" $rpath $objs $libs
	done
	objs=$(objects "$arch" nccl "-fPIC -fvisibility=hidden $rtflags" inject.c $(sources nccl))
	link -shared -s -soname libnccl.so.2 -o "$out/libnccl.so.2" $rpath $objs $libs
	objs=$(objects "$arch" nvtx "-fPIC -fvisibility=hidden $rtflags" nvtx.c)
	link -shared -s -soname libnvToolsExt.so.1 -o "$out/libnvToolsExt.so.1" --as-needed $objs $libs
	common_objs=$(objects "$arch" prog "-fPIE" prog/start.S prog/common.c)
	for p in train infer loader calls multi late loop; do
		objs=$(objects "$arch" prog "-fPIE" $(cd "$here/src" && ls prog/$p.c prog/${p}_*.c 2>/dev/null))
		link -pie -s -dynamic-linker $interp -o "$out/$p" $rpath $objs $common_objs "$out/libcudart.so.12" $libs
	done
	tally=$(objects "$arch" prog "-fPIE" prog/tally.c)
	for p in memory advanced ddp torch jit graph; do
		objs=$(objects "$arch" prog "-fPIE" prog/$p.c)
		link -pie -s -dynamic-linker $interp -o "$out/$p" $rpath $objs $tally $common_objs \
			"$out/libcudart.so.12" "$out/libcuda.so.1" "$out/libnccl.so.2" $libs
	done
	objs=$(objects "$arch" cuda13 "-fPIE -DCUDA13 -DPROGRAM=\"cuda13\"" prog/torch.c)
	link -pie -s -dynamic-linker $interp -o "$out/cuda13" $rpath $objs $tally $common_objs \
		"$out/libcudart.so.13" "$out/libcuda.so.1" $libs
	# The runtime linked into the program, which is nvcc's default.
	objs=$(objects "$arch" static "-fPIE -ffunction-sections -fdata-sections -fvisibility=hidden \
		-DCUDART=12 -DPROGRAM=\"static\" $rtflags" inject.c counts.c prog/torch.c $(sources cudart))
	for p in static static-stripped; do
		strip=
		[ $p = static ] || strip=-s
		link -pie $strip --gc-sections -dynamic-linker $interp -o "$out/$p" $rpath $objs $tally \
			$common_objs "$out/libcuda.so.1" $libs
	done
	printf 'kernels:\nvecAdd\n' >"$out/vecAdd.cubin"
	objs=$(objects "$arch" calib "-fno-pic -fno-pie" prog/calib.c prog/calib_fns.S)
	link -static -o "$out/calib" $objs
	chmod 755 "$out"/*
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
if [ "${1:-}" = --math ]; then
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	esac
	build_math "$arch" "$(mkdir -p "$2" && cd "$2" && pwd)"
	exit
fi
dest=$here/prebuilt
[ -n "${1:-}" ] && dest=$(mkdir -p "$1" && cd "$1" && pwd)
for arch in amd64 arm64; do
	build $arch "$dest/$arch"
done
