package redact

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secret is the secret in all tests.
const secret = "Zq9vX7Lm"

func TestArgs(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"nothing secret", "python train.py --lr 0.1 --tokenizer /models/llama --pin 3", "python train.py --lr 0.1 --tokenizer /models/llama --pin 3"},
		{"numbers of tokens", "vllm serve m --max-num-batched-tokens 8192 --max_tokens=64 --tokens-per-step 9 --num_key_value_heads 8",
			"vllm serve m --max-num-batched-tokens 8192 --max_tokens=64 --tokens-per-step 9 --num_key_value_heads 8"},
		{"a number that is none", "x --max-tokens-secret Zq9vX7Lm --access-tokens Zq9vX7Lm", "x --max-tokens-secret *** --access-tokens ***"},
		{"numbers of keys", "x --num-keys 8 --max_keys=9 --key_value_proj_dim=3 --sort-keys name", "x --num-keys 8 --max_keys=9 --key_value_proj_dim=3 --sort-keys name"},
		{"a key's value", "x --x-key-value=Zq9vX7Lm --x-key-value Zq9vX7Lm y", "x --x-key-value=*** --x-key-value *** y"},
		{"numbers inside words", "x RENEW_TOKENS=Zq9vX7Lm --enum-key Zq9vX7Lm --admin-tokens Zq9vX7Lm", "x RENEW_TOKENS=*** --enum-key *** --admin-tokens ***"},
		{"keys", "x --keys Zq9vX7Lm,b --keys=a,Zq9vX7Lm KEYS=Zq9vX7Lm y", "x --keys *** --keys=*** KEYS=*** y"},
		{"several keys", "vllm serve --api-key Zq9vX7Lm abc-123 meta-llama/Llama-3 Qwen2.5-7B 8000 --port 80 Zq9vX7",
			"vllm serve --api-key *** *** meta-llama/Llama-3 Qwen2.5-7B 8000 --port 80 Zq9vX7"},
		{"several secrets", "x --secrets Zq9vX7Lm abc /data/x 3 --lr 0.1 y", "x --secrets *** *** /data/x 3 --lr 0.1 y"},
		{"a command after a key", "x --api-key Zq9vX7Lm train s3", "x --api-key *** train s3"},
		{"a value of its own", "train --hf-token Zq9vX7Lm --lr 0.1", "train --hf-token *** --lr 0.1"},
		{"an attached value", "train --my_password=Zq9vX7Lm --lr 0.1", "train --my_password=*** --lr 0.1"},
		{"key", "train key=Zq9vX7Lm lr=0.1", "train key=*** lr=0.1"},
		{"camel case", "train --apiKey Zq9vX7Lm -DauthToken=Zq9vX7Lm", "train --apiKey *** -DauthToken=***"},
		{"a name after a name", "train --token --password Zq9vX7Lm x", "train --token *** *** x"},
		{"a sign alone", "train --token = Zq9vX7Lm x", "train --token *** *** x"},
		{"nothing behind the sign", "train --token= Zq9vX7Lm x", "train --token= *** x"},
		{"a header", "fetch -H|Authorization: Bearer Zq9vX7Lm|x", "fetch -H|Authorization: ***|x"},
		{"a header in words", "fetch -H Authorization: Basic Zq9vX7Lm x", "fetch -H Authorization: *** *** x"},
		{"a script", "bash -c|export HF_TOKEN=Zq9vX7Lm; ls", "bash -c|export HF_TOKEN=***"},
		{"Python", `python -c|os.environ["HF_TOKEN"] = "Zq9vX7Lm"`, `python -c|os.environ["HF_TOKEN"] = "***`},
		{"JSON", `run {"user":"me","password":"Zq9vX7Lm"}`, `run {"user":"me","password":"***`},
		{"a renamed program", "python train --token Zq9vX7Lm", "python train --token ***"},
		{"an address", "git clone https://me:Zq9vX7Lm@host/x https://Zq9vX7Lm@host/y", "git clone https://***@host/x https://***@host/y"},
		{"an address with quotes", `get https://me:a"'<>Zq9vX7Lm@host/x https://host/y`, `get https://***@host/x https://host/y`},
		{"addresses in a script", `sh -c|get "https://me:Zq9vX7Lm@host/x" 'https://host/y' z@host`, `sh -c|get "https://***@host/x" 'https://host/y' z@host`},
		{"an address with a query", "get https://host/?a=1&token=Zq9vX7Lm&b=2", "get https://host/?a=1&token=***"},
		{"user and password", "get --proxy=me:Zq9vX7Lm@host:80", "get --proxy=me:***@host:80"},
		{"mysql", "/usr/bin/mysql -u me -pZq9vX7Lm db", "/usr/bin/mysql -u me -p*** db"},
		{"curl", "curl -sSu me:Zq9vX7Lm https://host", "curl -sSu *** https://host"},
		{"curl, attached", "curl -sSume:Zq9vX7Lm https://host", "curl -sSu*** https://host"},
		{"curl, a word", "curl --user me:Zq9vX7Lm https://host", "curl --user *** https://host"},
		{"a program in a text", "sh -c|cd /x && mysql -u me -pZq9vX7Lm db", "sh -c|cd /x && mysql ***"},
		{"under another", "sudo sshpass -p Zq9vX7Lm ssh host", "sudo sshpass *** *** ssh host"},
		{"a known kind", "train hf_Zq9vX7LmZq9vX7Lm x", "train *** x"},
		{"a long run", "wandb init 0123456789abcdef0123456789abcdef01234567 x", "wandb init *** x"},
		{"a web token", "x eyJhbGciOiJ9.eyJzdWIiOiIx.Zq9vX7Lm-_ y", "x *** y"},
		{"a file", "train /run/secrets/config.yaml /etc/my_token x", "train /run/secrets/config.yaml /etc/my_token x"},
		{"login", "wandb login Zq9vX7Lm x", "wandb login *** x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sep := " "
			if strings.Contains(tt.args, "|") { // arguments with spaces
				sep = "|"
			}
			split := func(s string) (out []string) {
				if sep == " " {
					return strings.Fields(s)
				}
				for part := range strings.SplitSeq(s, "|") {
					out = append(out, part)
				}
				return out
			}
			got := Args(split(tt.args))
			if diff := cmp.Diff(split(tt.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("äöü", MaxLine)
	for _, tt := range []struct {
		name string
		mode Mode
		args []string
		want string
	}{
		{"safe", Safe, []string{"train", "--token", secret}, "train --token ***"},
		{"no mode", "", []string{"train", "--token", secret}, "train --token ***"},
		{"off", Off, []string{"train"}, ""},
		{"full", Full, []string{"train", "--token", secret}, "train --token " + secret},
		{"renamed", Safe, []string{"train --token " + secret, "", ""}, "train --token ***"},
		{"spaces", Safe, []string{"sh", "-c", "it's me", ""}, `sh -c 'it'\''s me'`},
		{"an empty one", Safe, []string{"x", "", "y"}, "x '' y"},
		{"not text", Safe, []string{"x\xff"}, "x?"},
		{"none", Safe, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.mode.Line(tt.args); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	got := Safe.Line([]string{long})
	if len(got) > MaxLine || !strings.HasSuffix(got, "...") || strings.Contains(got, "?") {
		t.Errorf("a line of %d bytes that ends with %q", len(got), got[len(got)-8:])
	}
}

// forms are the ways to write a secret down: @ is the name and % the secret.
var forms = []string{
	"--@=%", "--@|%", "@=%", "@: %", "-D@=%", "/@:%", "export @=%", `{"@":"%"}`, `{'@': '%'}`, "--@|=|%", "--@=|%", "--x-@-y=%", "X_@_2=%", "@ %",
	"?a=b&@=%", "@%3D%", "h[\"@\"]='%'",
}

var names = []string{
	"token", "TOKEN", "hf_token", "keys", "API_KEYS", "x-key-value", "auth-token", "password", "PassWord", "db.passwd", "passphrase", "secret", "clientSecret", "api-key", "API_KEY", "key",
	"ssh_key", "pwd", "MYSQL_PWD", "authorization", "cookie", "credentials", "signature", "auth", "aws_secret_access_key", "webhook",
}

// others are forms without a name.
var others = []string{
	"--keys|a|%", "--api-key|abc123|%", "--secrets|a|b|%",
	"https://me:%@host", "postgres://me:a/%@host/db", "https://%@host", "-x|me:%@host", "ghp_%", "hf_%abcdefgh", "sk-%-abcdefgh", "mysql|-p%", "redis-cli|-a|%",
	"sshpass|-p|%", "curl|-u|me:%", "curl|-ku|me:%", "sh|-c|curl -u me:% host", "Authorization:|Bearer|%", "-----BEGIN KEY----- %", "0123456789abcdef0123456789abcdef%",
}

// written returns a command line with the secret in one of the forms, between other words.
func written(form, name uint, before, after string) []string {
	n := uint(len(forms) * len(names))
	text := others[form%uint(len(others))]
	if form%(n+uint(len(others))) < n {
		text = strings.ReplaceAll(strings.ReplaceAll(forms[form%uint(len(forms))], "%3D%", "%3D\x00"), "@", names[name%uint(len(names))])
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "%3D\x00", "%3D"+secret), "%", secret)
	if strings.Contains(text, "3D"+secret) { // the form's own %3D, not ours
		text = strings.ReplaceAll(text, secret+"3D", "%3D")
	}
	args := append(strings.Split(before, "\x00"), strings.Split(text, "|")...)
	return append(args, strings.Split(after, "\x00")...)
}

func TestNoSecretSurvives(t *testing.T) {
	for f := range uint(len(forms)*len(names) + len(others)) {
		for n := range uint(len(names)) {
			args := written(f, n, "python\x00train.py", "--lr\x000.1")
			if !strings.Contains(strings.Join(args, " "), secret) {
				t.Fatalf("%q has no secret", args)
			}
			if got := Safe.Line(args); strings.Contains(got, secret) {
				t.Fatalf("%q became %q", args, got)
			}
		}
	}
}

func FuzzNoSecretSurvives(f *testing.F) {
	f.Add(uint(0), uint(0), "python\x00train.py", "--lr\x000.1")
	f.Add(uint(3), uint(7), "sh\x00-c", "https://x/@")
	f.Add(uint(400), uint(1), "--token", "\"'")
	f.Fuzz(func(t *testing.T, form, name uint, before, after string) {
		if strings.Contains(before+after, secret) {
			return // not a secret
		}
		args := written(form, name, before, after)
		if got := Safe.Line(args); strings.Contains(got, secret) {
			t.Errorf("%q became %q", args, got)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	args := strings.Fields("/opt/conda/bin/python -u /workspace/train.py --model llama --lr 0.0003 --batch-size 32 --output /data/run-1 --hf-token " + secret)
	b.ReportAllocs()
	for range b.N {
		Safe.Line(args)
	}
}

// hostileUnits are repeated to build lines that are hard to process.
var hostileUnits = []string{"a ", "@", "://", "a:b@", "token ", "mysql ", "curl -u ", "\"=", "eyJ", "0a", "hooks.slack.com/services/"}

// hostileLines returns the longest lines that are read, as one argument and as many words.
func hostileLines(unit string) map[string][]string {
	const size = 64 << 10 // as much as is read
	long := strings.Repeat(unit, size/len(unit))
	return map[string][]string{"one": {"x", long}, "words": append([]string{"x"}, strings.Fields(long)...)}
}

// A secret after a hostile line is removed like any other.
func TestHostileLines(t *testing.T) {
	for _, unit := range hostileUnits {
		for name, args := range hostileLines(unit) {
			got := Args(append(args, "--hf-token", secret, "--password="+secret))
			if line := strings.Join(got, " "); strings.Contains(line, secret) {
				t.Errorf("%s of %q: the secret is left: %q", name, unit, line[len(line)-100:])
			}
		}
	}
}
