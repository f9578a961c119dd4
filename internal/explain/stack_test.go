package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"ingero/internal/wire"
	"ingero/pkg/events"
)

var someStack = &events.Stack{ID: 3, Cut: true, Frames: []events.Frame{
	{Kind: events.FrameNative, IP: 0x7f01, Func: "cublasSgemm_v2", Offset: 0xa6, Module: "/opt/lib/libcublas.so.12", File: "gemm.cc", Line: 7},
	{Kind: events.FrameNative, IP: 0x7f01, Func: "inlined", Inline: true, Module: "/opt/lib/libcublas.so.12"},
	{Kind: events.FramePython, Func: "Net.forward", File: "evil\x1b[2J.py", Line: 142},
	{Kind: events.FramePython, Func: "<module>", File: "train.py"},
	{Kind: events.FrameNative, IP: 0x7f02, Module: "/a/libtorch_cuda.so", Offset: 9},
	{Kind: events.FrameNative, IP: 0x7f03},
}}

func TestStackLines(t *testing.T) {
	want := `[GPU] scale(float*, int)
[Native] cublasSgemm_v2+0xa6 (libcublas.so.12) at gemm.cc:7
[Native] inlined (libcublas.so.12)
[Python] evil?[2J.py:142 in Net.forward()
[Python] train.py in <module>()
[Native] (libtorch_cuda.so)
[Native] 0x7f03
[...] stack truncated`
	if got := strings.Join(StackLines(someStack, "_Z5scalePfi"), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFramesJSON(t *testing.T) {
	want := `[{"gpu":"scale(float*, int)"},` +
		`{"ip":"0x7f01","symbol":"cublasSgemm_v2+0xa6","file":"libcublas.so.12","source":"gemm.cc","line":7},` +
		`{"ip":"0x7f01","symbol":"inlined","file":"libcublas.so.12","inline":true},` +
		`{"py_file":"evil?[2J.py","py_func":"Net.forward","py_line":142},{"py_file":"train.py","py_func":"<module>"},` +
		`{"ip":"0x7f02","file":"libtorch_cuda.so"},{"ip":"0x7f03"},{"gap":"stack truncated"}]`
	got := strings.ReplaceAll(string(AppendFramesJSON(nil, someStack, "_Z5scalePfi")), `\u003c`, "<")
	if got = strings.ReplaceAll(got, `\u003e`, ">"); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c := events.Call{PID: 7, Op: 0x0110, Stack: 3, StackLevel: 2, Weight: 1}
	line := AppendCallWithStackJSON(nil, &c, "", "", someStack)
	fits[wire.CallLine](t, line)
	var call wire.CallLine
	if err := json.Unmarshal(line, &call); err != nil || call.StackID != 3 || call.StackWeight != 16 || len(call.Stack) != 7 {
		t.Errorf("%v: %s", err, line)
	}
}
