package raw

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tape"
)

// other is the name on tapes of a process that is not ours.
const other = "other"

// ours lists the names of processes and threads that tapes may have: those of scenarios, and some
// of every kernel.
var ours = []string{"victim", "faults", "hog", "stopper", "train", "taskset", "python3", "sh", "raw.test",
	"pt_data_worker", "pt_data_pin", "pt_autograd_0", other, "kworker", "kswapd0"}

var kernels = regexp.MustCompile(`^(swapper|ksoftirqd|migration)/[0-9]+$`)

func isOurs(comm string) bool { return slices.Contains(ours, comm) || kernels.MatchString(comm) }

var (
	folders = regexp.MustCompile(`/[^ :"]*/`)
	peers   = regexp.MustCompile(`^[0-9a-fA-F.:\[\]]*[.:][0-9a-fA-F.:\[\]]*$`)
)

// clean replaces the names of other processes and of this machine's directories: see
// session.RawTape.
func clean(field, text string) string {
	switch field {
	case "Comm":
		if strings.HasPrefix(text, "kworker/") {
			return "kworker"
		}
		if !isOurs(text) {
			return other
		}
		return text
	case "Exe":
		if base := path.Base(text); isOurs(base) || strings.HasPrefix(base, "python3") || base == "dash" {
			return "/" + base
		}
		return "/" + other
	case "Path", "Module", "File":
		if strings.HasPrefix(text, "/") {
			return "/" + path.Base(text)
		}
		return text
	case "Cgroup", "Object":
		switch {
		case strings.Contains(text, "ingero-test-"), text == "/job":
			return "/job"
		case peers.MatchString(text):
			return other
		case strings.HasPrefix(text, "/"):
			return "/" + other
		}
		return text
	case "Why":
		return folders.ReplaceAllString(text, "/")
	case "Kind", "Reason", "Func", "BuildID", "Name", "Started", "Ended", "Mapped", "Attached":
		return text
	}
	return "" // the place of a process
}

// TestTapesNameOnlyOurProcesses reads everything on a tape, not only what is played.
func TestTapesNameOnlyOurProcesses(t *testing.T) {
	for _, name := range tapes(t) {
		r, err := tape.Open(bytes.NewReader(read(t, name+".tape")))
		if err != nil {
			t.Fatal(err)
		}
		for {
			k, b, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for field, texts := range textsOf(t, k, b) {
				for _, text := range texts {
					if clean(field, text) != text {
						t.Errorf("%s: a frame %v has %s %q", name, k, field, text)
					}
				}
			}
		}
		r.Close()
	}
}

// textsOf returns the texts of a frame by the name of their field.
func textsOf(t *testing.T, k tape.Kind, b []byte) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	note := func(comm string) string {
		out["Comm"] = append(out["Comm"], comm)
		return comm
	}
	switch {
	case k == tape.Record || k == tape.Life:
		decode.RenameRecord(append(bytes.Clone(b), make([]byte, 1<<12)...)[:len(b)], note)
	case k == tape.HostSum || k == tape.HostLast:
		var key probes.HostKey
		var sum probes.HostSum
		at := len(b) - len(decode.Bytes(&sum)) // older layouts have shorter keys
		if err := decode.Fill(&sum, b[at:]); err != nil {
			t.Fatal(err)
		}
		decode.RenameComm(&sum.Comm, note)
		if err := decode.Fill(&key, append(bytes.Clone(b[:at]), make([]byte, len(decode.Bytes(&key))-at)...)); err != nil {
			t.Fatal(err)
		}
		if k := decode.HostKey(&key); k.Kind.Row().Object == "peer" && k.Object != "" {
			out["Object"] = append(out["Object"], k.Object)
		}
	case k >= tape.Drops:
		var x any
		if err := json.Unmarshal(b, &x); err != nil {
			t.Fatalf("frame %v: %v", k, err)
		}
		walk(map[tape.Kind]string{tape.Name: "Comm", tape.Device: "Object", tape.Cgroup: "Cgroup"}[k], x, out)
	}
	return out
}

func walk(field string, x any, out map[string][]string) {
	switch x := x.(type) {
	case string:
		if x != "" {
			out[field] = append(out[field], x)
		}
	case []any:
		for i := range x {
			walk(field, x[i], out)
		}
	case map[string]any:
		for name := range x {
			walk(name, x[name], out)
		}
	}
}

// tapes returns the names of the scenarios.
func tapes(t testing.TB) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.tape"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tapes: %v", err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".tape"))
	}
	return names
}
