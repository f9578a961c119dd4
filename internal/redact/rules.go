package redact

import (
	"regexp"
	"strings"
)

// Secret-sounding names, in lower case and without hyphens and similar characters.
var (
	// anywhere in the name
	anywhere = []string{
		"token", "password", "passwd", "passphrase", "passcode", "secret", "credential", "apikey", "accesskey", "privatekey", "bearer",
		"authorization", "cookie", "signature", "connectionstring", "webhook", "notify", "fromliteral",
	}
	// at the end of a word of the name
	ends = []string{"key", "keys", "pass", "pwd", "auth"}
	// a whole word of the name
	whole = map[string]bool{"pw": true, "pat": true, "sas": true, "sig": true, "jwt": true, "dsn": true, "otp": true, "cred": true, "creds": true,
		"login": true, "passin": true, "passout": true}
	// removed from the name first
	harmless = []string{"tokenizer", "tokenization", "tokenize", "bypass", "compass", "monkey", "turkey", "keyboard"}
	// counts, as for language models; removed next
	counts = regexp.MustCompile(`(^|[-_.])(?:(?:max|new|min|num|batched)[-_]tokens|tokens[-_]per|(?:num|max|sort)[-_]key|key[-_]value[-_](?:head|proj))`)
	// schemes precede a value
	schemes = map[string]bool{"basic": true, "bearer": true, "digest": true, "token": true, "negotiate": true, "apikey": true}
)

// option is an option with a secret value: a letter ("-p", alone, in a bundle, or with its value
// attached), or a whole word.
type option struct {
	letter byte
	word   string
}

// value returns where the option's value begins in an argument: at its end if the next argument is
// the value.
func (o option) value(a string) (at int, is bool) {
	switch {
	case o.word != "":
		rest, ok := strings.CutPrefix(a, o.word)
		if !ok || rest != "" && rest[0] != '=' && rest[0] != ':' {
			return 0, false
		}
		return len(a) - len(strings.TrimLeft(rest, "=:")), true
	case len(a) < 2 || a[0] != '-' || a[1] == '-':
		return 0, false
	}
	i := strings.IndexByte(a, o.letter)
	return i + 1, i > 0
}

// programs have secret options whose names do not sound secret.
var programs = map[string][]option{}

func init() {
	for _, row := range []struct {
		names   string
		options []option
	}{
		{"mysql mysqldump mysqladmin mysqlimport mysqlsh mycli mariadb mariadb-dump mariadb-admin", []option{{letter: 'p'}}},
		{"mongo mongosh mongodump mongorestore cqlsh sshpass snowsql", []option{{letter: 'p'}}},
		{"docker podman nerdctl buildah skopeo helm az oc ctr crictl", []option{{letter: 'p'}, {letter: 'u'}, {word: "--creds"}, {word: "--user"}}},
		{"curl wget http https aria2c", []option{{letter: 'u'}, {letter: 'U'}, {letter: 'E'}, {letter: 'b'}, {letter: 'a'}, {letter: 'd'},
			{word: "--user"}, {word: "--proxy-user"}, {word: "--cert"}, {word: "--data"}, {word: "--data-raw"}, {word: "--data-binary"}}},
		{"redis-cli", []option{{letter: 'a'}}},
		{"smbclient rpcclient", []option{{letter: 'U'}, {word: "--user"}}},
		{"ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldappasswd", []option{{letter: 'w'}, {letter: 's'}, {letter: 'a'}}},
		{"htpasswd", []option{{letter: 'b'}, {letter: 'n'}}},
		{"openssl", []option{{word: "-k"}, {word: "-K"}, {word: "-iv"}, {word: "-macopt"}}},
		{"zip unzip zipcloak 7z 7za 7zz rar unrar ipmitool", []option{{letter: 'p'}, {letter: 'P'}}},
		{"xfreerdp rdesktop", []option{{letter: 'p'}, {word: "/p"}}},
		{"kinit ktutil", []option{{letter: 'w'}}},
	} {
		for name := range strings.FieldsSeq(row.names) {
			programs[name] = append(programs[name], row.options...)
		}
	}
}

// looks are texts that look like a secret anywhere, with a part that each of these texts has. What the
// groups match stays.
var looks = []struct {
	part string
	like *regexp.Regexp
}{
	{"@", regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.\-]*://)\S*(@)`)},                             // scheme://user:password@host
	{"@", regexp.MustCompile(`((?:^|[\s"'=])[^\s:/@"'=]+:)(?:[^\s@"'/]|/[^\s@"'/])[^\s"']*(@)`)}, // user:password@host
	{"", regexp.MustCompile(`()-----BEGIN[\s\S]*`)},                                              // PEM
	{"", regexp.MustCompile(`()eyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-.]+`)},                           // JSON web token
	{"", regexp.MustCompile(`()(?:gh[pousr]|github_pat|glpat|glrt|gldt)[_\-]\S+`)},               // GitHub, GitLab
	{"", regexp.MustCompile(`()(?:xox[abeoprs]|nvapi|dckr_pat|wandb_v1|pypi|npm|ya29|age-secret-key|AGE-SECRET-KEY)[_\-.]\S{8,}`)},
	{"", regexp.MustCompile(`((?:^|[^A-Za-z0-9]))(?:hf_|sk-|pk-|rk_|sk_|SG\.|AKIA|ASIA|AIza)[A-Za-z0-9_\-.]{8,}`)},
	{"", regexp.MustCompile(`(hooks\.slack\.com/services/)\S+`)},
}

// unbroken is a run of letters and digits that is too long for a word.
var unbroken = regexp.MustCompile(`[A-Za-z0-9]{32,}`)

// shapes removes texts that look like a secret.
func shapes(s string) string {
	for _, x := range looks {
		if strings.Contains(s, x.part) { // a search for the expression takes longer
			s = x.like.ReplaceAllString(s, "${1}"+Hidden+"${2}")
		}
	}
	return unbroken.ReplaceAllStringFunc(s, func(run string) string {
		if strings.ContainsAny(run, "0123456789") && strings.Trim(run, "0123456789") != "" {
			return Hidden
		}
		return run
	})
}
