// Command btfcheck compares the trimmed kernel types in bpf/vmlinux with those of the running
// kernel. Every struct and field in bpf/vmlinux must be in the kernel's BTF too, unless the
// programs check it with bpf_core_field_exists first. It prints one line for each missing one, and
// then exits with status 1.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/cilium/ebpf/btf"
)

func main() {
	missing, checked, err := run("bpf")
	if err != nil {
		fmt.Fprintln(os.Stderr, "btfcheck:", err)
		os.Exit(1)
	}
	for _, m := range missing {
		fmt.Println(m)
	}
	fmt.Printf("%d fields checked, %d missing in this kernel\n", checked, len(missing))
	if len(missing) > 0 {
		os.Exit(1)
	}
}

func run(dir string) (missing []string, checked int, err error) {
	local, names, err := compile(filepath.Join(dir, "vmlinux"))
	if err != nil {
		return nil, 0, err
	}
	guarded, err := guards(dir)
	if err != nil {
		return nil, 0, err
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, 0, fmt.Errorf("read the kernel's BTF: %w", err)
	}
	for _, name := range names {
		var want *btf.Struct
		if err := local.TypeByName(name, &want); err != nil {
			return nil, 0, fmt.Errorf("struct %s in %s: %w", name, dir, err)
		}
		m, n := compare(want, kernel, guarded)
		missing = append(missing, m...)
		checked += n
	}
	return missing, checked, nil
}

var (
	structLine = regexp.MustCompile(`(?m)^struct (\w+) \{`)
	guardLine  = regexp.MustCompile(`bpf_core_field_exists\([^()]*?(\w+)\)`)
)

// archs maps Go's names of architectures to libbpf's.
var archs = map[string]string{"amd64": "x86", "arm64": "arm64"}

// compile compiles the headers with clang, and returns their types.
func compile(dir string) (*btf.Spec, []string, error) {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return nil, nil, fmt.Errorf("there are no kernel types for %s", runtime.GOARCH)
	}
	var names []string
	source := "#include \"vmlinux.h\"\n"
	for _, file := range []string{"vmlinux.h", arch + ".h"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, nil, err
		}
		for _, m := range structLine.FindAllSubmatch(text, -1) {
			name := string(m[1])
			names = append(names, name)
			source += fmt.Sprintf("struct %s var_%s;\n", name, name)
		}
	}
	out, err := os.CreateTemp("", "btfcheck*.o")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	defer func() { _ = out.Close() }()
	clang := exec.Command("clang-14", "-target", "bpf", "-g", "-D__TARGET_ARCH_"+arch, "-I", dir, "-c", "-x", "c", "-", "-o", out.Name())
	clang.Stdin = strings.NewReader(source)
	if text, err := clang.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", clang, err, text)
	}
	spec, err := btf.LoadSpec(out.Name())
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", out.Name(), err)
	}
	return spec, names, nil
}

// guards returns the fields that the programs check before use.
func guards(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.[ch]"))
	if err != nil {
		return nil, err
	}
	guarded := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range guardLine.FindAllSubmatch(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")), -1) {
			guarded[string(m[1])] = true
		}
	}
	return guarded, nil
}

// compare lists the parts of a struct that the kernel lacks, and counts the guarded ones. A suffix
// after "___" in a name marks a variant of the struct.
func compare(want *btf.Struct, kernel *btf.Spec, guarded map[string]bool) (missing []string, checked int) {
	name, _, variant := strings.Cut(want.Name, "___")
	var have *btf.Struct
	if err := kernel.TypeByName(name, &have); err != nil {
		if variant {
			return nil, 0
		}
		return []string{fmt.Sprintf("struct %s: %v", name, err)}, 0
	}
	fields := map[string]bool{}
	collect(have.Members, fields)
	for _, m := range want.Members {
		if m.Name == "" {
			continue
		}
		checked++
		if !fields[m.Name] && !guarded[m.Name] && !variant {
			missing = append(missing, fmt.Sprintf("struct %s has no field %s", name, m.Name))
		}
	}
	return missing, checked
}

// collect collects the names of fields, including those of anonymous members.
func collect(members []btf.Member, fields map[string]bool) {
	for _, m := range members {
		if m.Name != "" {
			fields[m.Name] = true
			continue
		}
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			collect(t.Members, fields)
		case *btf.Union:
			collect(t.Members, fields)
		}
	}
}
