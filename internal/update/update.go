package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// Releases is the address of the newest release.
	Releases = "https://api.github.com/repos/ingero-io/ingero/releases/latest"
	every    = 24 * time.Hour
	again    = time.Hour
	timeout  = 10 * time.Second
	maxReply = 1 << 20 // bytes; a release with many files has some 100 KiB
	maxFile  = 1 << 10
)

// Checker finds the newest release. All fields except Client are required.
type Checker struct {
	URL     string
	Version string                   // version of this program: "1.2.3"
	File    func() (*os.File, error) // opens the file with the last answer, or creates it
	Now     func() time.Time
	Client  *http.Client // nil: http.Client's default, with the package's redirect rule
}

// answer is the content of the file.
type answer struct {
	Requested time.Time `json:"asked"` // time of the last request, answered or not
	Newest    string    `json:"newest,omitempty"`
}

// Newer returns the version of a newer release from the stored answer, "" if there is none, and
// whether a new request is due. It never is if answers cannot be stored.
func (c *Checker) Newer() (version string, ask bool) {
	f, err := c.File()
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // read only
	a := kept(f)
	now := c.Now()
	if newer(a.Newest, c.Version) {
		version = a.Newest
	}
	return version, now.Sub(a.Requested) >= every || a.Requested.After(now)
}

// Fetch requests the newest release and stores the answer. It stores the time of the request first,
// so that an unreachable or lying server is asked once a day. If ctx ends before the answer, the
// next request is due in an hour.
func (c *Checker) Fetch(ctx context.Context) (err error) {
	f, err := c.File()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := answer{Requested: c.Now(), Newest: kept(f).Newest} // keep the old answer until there is a new one
	if err := keep(f, a); err != nil {
		return err
	}
	inTime, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	newest, err := c.fetch(inTime)
	if err != nil {
		if ctx.Err() != nil {
			a.Requested = a.Requested.Add(again - every)
			err = errors.Join(err, keep(f, a))
		}
		return fmt.Errorf("ask for the newest release: %w", err)
	}
	a.Newest = newest
	return keep(f, a)
}

// fetch returns the newest release's version.
func (c *Checker) fetch(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", "ingero/"+c.Version)
	req.Header.Set("Accept", "application/json")
	client := c.Client
	if client == nil {
		client = &http.Client{}
	}
	own := *client
	own.Jar, own.CheckRedirect = nil, sameHost(req.URL)
	resp, err := own.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GitHub answered with status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return "", err
	}
	if len(body) > maxReply {
		return "", fmt.Errorf("the answer has more than %d bytes", maxReply)
	}
	var release struct {
		Tag   string `json:"tag_name"`
		Draft bool   `json:"draft"`
		Early bool   `json:"prerelease"`
	}
	if err := json.Unmarshal(body, &release); err != nil {
		return "", errors.New("the answer does not describe a release")
	}
	version := strings.TrimPrefix(release.Tag, "v")
	if _, ok := parse(version); !ok || release.Draft || release.Early {
		return "", errors.New("the answer names no release")
	}
	return version, nil
}

// sameHost refuses redirects to another host.
func sameHost(from *url.URL) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) > 3 || req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
			return errors.New("the redirect leads to another host")
		}
		return nil
	}
}

// kept reads the stored answer, the zero value if there is none.
func kept(f *os.File) (a answer) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxFile))
	if err != nil || json.Unmarshal(text, &a) != nil {
		return answer{}
	}
	return a
}

// keep stores an answer.
func keep(f *os.File, a answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(text, '\n'), 0)
	return err
}

var release = regexp.MustCompile(`^(\d{1,6})\.(\d{1,6})\.(\d{1,6})$`)

// parse parses a version of three numbers.
func parse(s string) (v [3]int, ok bool) {
	m := release.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // few digits
	}
	return v, true
}

// Released reports whether a version is that of a release. Other versions make no requests.
func Released(version string) bool {
	v, ok := parse(strings.TrimPrefix(version, "v"))
	return ok && v != [3]int{}
}

// newer reports whether a is a later release than b.
func newer(a, b string) bool {
	x, ok := parse(a)
	y, known := parse(strings.TrimPrefix(b, "v"))
	if !ok || !known {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}
