// Package bpf has the output of bpf2go for bpf/ingero.bpf.c, bpf/xid.bpf.c, bpf/request.bpf.c and
// bpf/peek.bpf.c: the objects for amd64 and arm64, and the Go types of bpf/abi.h. All files except
// this one are generated. Only internal/probes and internal/decode import the package.
package bpf

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -type call_record -type proc_record -type text_record -type range_record -type range_flags -type py_code_record -type recipe -type rule -type target -type retire_args -type counts -type counts_key -type take -type recipe_flags -type target_flags -type call_flags -type record_kind -type drop_reason -type place -type launch_layer -type origins_use -type who -type block -type sums -type account -type wait_record -type thread_record -type wait_state -type wait_flags -type host_key -type host_sum -type host_kind -type host_peer -type host_room -type pages_key -type space_seen -type walk_end -type unwind_kind -type unwind_means -type stack_record -type py_walk -type py_frame -type stack_policy -type py_end Ingero ../../bpf/ingero.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I../../bpf/vmlinux

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -type record Xid ../../bpf/xid.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I../../bpf/vmlinux

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -type record -type response_end -type unmeasured -type connection -type phase Request ../../bpf/request.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I../../bpf/vmlinux

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -type peek -type peek_found Peek ../../bpf/peek.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I../../bpf/vmlinux
