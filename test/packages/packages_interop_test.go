//go:build interop

package packages

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ingero/internal/jail"
	"ingero/internal/testkit"
	"ingero/sim"
)

const oldVersion, newVersion = "0.1.0", "0.2.0"

// TestMain makes the test binary a program in the unit's sandbox, or one that starts a jail, if the
// environment requests it.
func TestMain(m *testing.M) {
	jail.Enter()
	if spec := os.Getenv(inSandbox); spec != "" {
		fmt.Fprintln(os.Stderr, "sandbox:", enter(spec, os.Args[1:]))
		os.Exit(125)
	}
	if os.Getenv(inJail) != "" {
		if err := jailed(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if made.dir != "" {
		_ = os.RemoveAll(made.dir)
	}
	os.Exit(code)
}

// made has the packages of both versions, for this machine's architecture.
var made struct {
	once sync.Once
	dir  string
	err  error
}

// file returns the path of a package.
func file(t *testing.T, version, suffix string) string {
	t.Helper()
	testkit.NeedTool(t, "git")
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "packages-"); made.err == nil {
			made.err = errors.Join(pack(made.dir, oldVersion, "KINDS=deb"), pack(made.dir, newVersion))
		}
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	return filepath.Join(made.dir, version, "ingero_"+version+"_linux_"+runtime.GOARCH+suffix)
}

// pack makes the packages of a version, with any umask and time zone.
func pack(dir, version string, env ...string) error {
	cmd := exec.Command("../../tools/package.sh", version)
	cmd.Env = append(os.Environ(), append([]string{"OUT=" + filepath.Join(dir, version), "ARCHES=" + runtime.GOARCH, "SOURCE_DATE_EPOCH=1700000000", "COMMIT=abc"}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("package.sh %s: %w\n%s", version, err, out)
	}
	return nil
}

// output runs a command that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, stderr.Bytes())
	}
	return string(out)
}

// The same commit and version give the same bytes, wherever and whenever they are made.
func TestReproducible(t *testing.T) {
	sums := filepath.Join(filepath.Dir(file(t, newVersion, "")), "SHA256SUMS")
	dir := t.TempDir()
	if err := pack(dir, newVersion, "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "TMPDIR="+dir); err != nil {
		t.Fatal(err)
	}
	want, err1 := os.ReadFile(sums)
	got, err2 := os.ReadFile(filepath.Join(dir, newVersion, "SHA256SUMS"))
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\nmade anew:\n%sbefore:\n%s", err, got, want)
	}
	for line := range strings.Lines(string(want)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		text, err := os.ReadFile(filepath.Join(filepath.Dir(sums), name))
		if have := sha256.Sum256(text); err != nil || hex.EncodeToString(have[:]) != sum {
			t.Errorf("%s: %v, %x", name, err, have)
		}
	}
	if n := strings.Count(string(want), "\n"); n != 4 {
		t.Errorf("%d files have sums", n)
	}
}

// The archive has the program at its top, which prints its version and commit, and the accompanying
// files.
func TestArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ingero")
	found := map[string]int64{}
	testkit.Untar(t, file(t, newVersion, ".tar.gz"), func(h *tar.Header, content []byte) {
		found[h.Name] = h.Size
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: %d:%d, %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		if h.Name == "ingero" {
			if err := os.WriteFile(program, content, 0o755); err != nil || h.Mode != 0o755 {
				t.Fatal(err, h.Mode)
			}
		}
	})
	for _, name := range []string{"ingero", "LICENSE", "README.md", "THIRD_PARTY.txt", "sbom.json", "man/ingero.1", "man/ingero-trace.1", "man/ingero.yaml.5",
		"completions/ingero.bash", "completions/_ingero", "completions/ingero.fish"} {
		if found[name] == 0 {
			t.Errorf("%s is not in the archive", name)
		}
	}
	if got := output(t, program, "version"); got != "ingero v0.2.0 (commit: abc, built: 2023-11-14T22:13:20Z)\n" {
		t.Errorf("version: %s", got)
	}
}

// The rpm has the deb's files, and its program runs.
func TestRPM(t *testing.T) {
	testkit.NeedTool(t, "rpm")
	testkit.NeedTool(t, "rpm2cpio")
	testkit.NeedTool(t, "cpio")
	rpm := file(t, newVersion, ".rpm")
	list := output(t, "rpm", "-qpl", rpm)
	deb := output(t, "dpkg-deb", "--fsys-tarfile", file(t, newVersion, ".deb"))
	for r := tar.NewReader(strings.NewReader(deb)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Replace(strings.TrimPrefix(h.Name, "."), "zsh/vendor-completions", "zsh/site-functions", 1)
		if h.Typeflag == tar.TypeReg && !strings.Contains(list, name+"\n") {
			t.Errorf("the rpm lacks %s", name)
		}
	}
	for query, want := range map[string]string{"-c": "/etc/ingero/ingero.yaml\n", "-i": "License     : Apache-2.0", "--requires": "shadow-utils", "--scripts": "groupdel $group"} {
		if got := output(t, "rpm", "-qp", query, rpm); !strings.Contains(got, want) {
			t.Errorf("rpm -qp %s: %s", query, got)
		}
	}
	dir := t.TempDir()
	output(t, "sh", "-c", `rpm2cpio "$1" | (cd "$2" && cpio -id --quiet --no-absolute-filenames)`, "sh", rpm, dir)
	if got := output(t, filepath.Join(dir, "usr/bin/ingero"), "version"); !strings.HasPrefix(got, "ingero v0.2.0 ") {
		t.Errorf("version: %s", got)
	}
}

// A deb is installed, upgraded with data during a trace, rolled back, removed during a trace,
// installed again and purged. Each step leaves exactly what it should.
func TestDebLife(t *testing.T) {
	testkit.NeedBPF(t)
	for _, tool := range []string{"unshare", "dpkg", "setpriv", "systemd-analyze"} {
		testkit.NeedTool(t, tool)
	}
	stack, err := sim.Extract(filepath.Join(t.TempDir(), "sim"))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(output(t, "unshare", "--mount", "bash", "life.sh", file(t, oldVersion, ".deb"), file(t, newVersion, ".deb"), stack.Program("train")))
}

// The unit is hardened: systemd's own exposure score, of 0 to 10, is at most 4.
func TestUnitScore(t *testing.T) {
	testkit.NeedTool(t, "systemd-analyze")
	const most = "40"
	out := output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+most, unit)
	t.Log(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
}

// The config file's settings apply to the service, since its command line has none. The service sees
// all devices, since no line implies a device policy, in any version of systemd.
func TestUnitRestrictsNeitherSettingsNorDevices(t *testing.T) {
	for line := range strings.Lines(read(t, unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart":
			if value != "/usr/bin/ingero trace" {
				t.Errorf("flags override the config file: %s", line)
			}
		case "ProtectClock", "PrivateDevices", "DeviceAllow", "DevicePolicy":
			t.Errorf("devices are hidden: %s", line)
		}
	}
}
