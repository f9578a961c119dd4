package k8s

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options configure a Table. One of Kubelet and API is set.
type Options struct {
	Kubelet   string // URL: https://127.0.0.1:10250
	API       string // URL: https://kubernetes.default.svc
	Node      string // API: the node whose pods to list
	TokenFile string // reread for each request, since tokens are short-lived; "": none
	CAFile    string // "": the machine's own
	// Insecure accepts any certificate: a kubelet's is often self-signed.
	Insecure bool
	Poll     time.Duration // interval between requests to a kubelet; 0: 10 s. At least a tenth of it for unknown pods
}

// Bounds of what a server may send.
const (
	maxBody   = 64 << 20 // bytes of an answer, or of an event of a watch
	maxToken  = 64 << 10
	pageSize  = 500 // pods per answer of an API server
	patience  = 10 * time.Second
	watchTime = 5 * time.Minute // the server then ends a watch
)

// errGone means that the server no longer has the changes after a version.
var errGone = errors.New("the version is too old")

// client sends requests to one server.
type client struct {
	http  *http.Client
	base  *url.URL
	token string // path
}

func newClient(o *Options) (*client, error) {
	address := o.Kubelet
	if (o.Kubelet == "") == (o.API == "") {
		return nil, errors.New("either a kubelet or an API server must be named")
	}
	if address == "" {
		address = o.API
	}
	u, err := url.Parse(bracketed(address))
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%q is not a URL: it must begin with https:// (or http://) and name a host", address)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of %s must have a scheme, a host and a port only", u.Host)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", o.CAFile)
		}
	}
	return &client{base: u, token: o.TokenFile, http: &http.Client{
		// HTTP/1: a request that fails closes its connection; HTTP/2 would keep it.
		Transport: &http.Transport{TLSClientConfig: config, ResponseHeaderTimeout: patience, MaxIdleConns: 1},
		// The token must not go to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// bracketed returns a URL with brackets around a bare IPv6 address before a port, as in
// "https://fd00::1:10250": Kubernetes expands "https://$(NODE_IP):10250" to that.
func bracketed(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	end := strings.IndexByte(rest+"/", '/')
	colon := strings.LastIndexByte(rest[:end], ':')
	if colon < 0 {
		return address
	}
	if ip, err := netip.ParseAddr(rest[:colon]); err != nil || !ip.Is6() {
		return address
	}
	return scheme + "://" + net.JoinHostPort(rest[:colon], rest[colon+1:end]) + rest[end:]
}

// get requests a path; the caller closes the body.
func (c *client) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := *c.base
	u.Path, u.RawQuery = strings.TrimSuffix(u.Path, "/")+path, query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "ingero")
	if c.token != "" && u.Scheme == "https" {
		token, err := readToken(c.token)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusGone {
		return nil, errGone
	}
	return nil, fmt.Errorf("%s: %s%s", u.Redacted(), res.Status, hints[res.StatusCode])
}

// hints explain status codes.
var hints = map[int]string{
	http.StatusUnauthorized: " (it does not know the token)",
	http.StatusForbidden:    " (the service account may not: it needs get on nodes/proxy for a kubelet, list and watch on pods for the API server)",
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxToken))
	token := strings.TrimSpace(string(b))
	if err == nil && (token == "" || strings.ContainsAny(token, "\r\n")) {
		err = fmt.Errorf("%s contains no token", path)
	}
	return token, err
}

// list returns all pods at a path, page by page, and the version of the answer.
func (c *client) list(ctx context.Context, path string, query url.Values) (pods []pod, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		page, err := c.page(ctx, path, query)
		if err != nil {
			return nil, "", err
		}
		pods = append(pods, page.Items...)
		if page.Metadata.Continue == "" || len(pods) >= maxPods {
			return pods, page.Metadata.ResourceVersion, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

func (c *client) page(ctx context.Context, path string, query url.Values) (*podList, error) {
	res, err := c.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var page podList
	if err := json.NewDecoder(&capped{r: res.Body, left: maxBody}).Decode(&page); err != nil {
		return nil, fmt.Errorf("%s%s: the answer is not a list of pods: %w", c.base.Redacted(), path, err)
	}
	return &page, nil
}

// watch calls take for each change after a version, until the server ends the watch. It then
// returns the last version and no error.
func (c *client) watch(ctx context.Context, path string, query url.Values, version string, take func(kind string, p *pod)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime+patience)
	defer cancel()
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", fmt.Sprint(int(watchTime.Seconds())))
	res, err := c.get(ctx, path, query)
	if err != nil {
		return version, err
	}
	defer func() { _ = res.Body.Close() }()
	body := &capped{r: res.Body}
	for d := json.NewDecoder(body); ; {
		body.left = maxBody
		var e watchEvent
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		var p pod
		if err == nil {
			err = e.decode(&p)
		}
		switch {
		case errors.Is(err, errGone):
			return version, errGone
		case err != nil:
			return version, fmt.Errorf("watch of %s: %w", c.base.Redacted(), err)
		}
		if v := p.Metadata.ResourceVersion; v != "" {
			version = v
		}
		take(e.Type, &p)
	}
}

// decode decodes the event's pod. For ERROR it returns the server's error, or errGone.
func (e *watchEvent) decode(p *pod) error {
	if e.Type != "ERROR" {
		return json.Unmarshal(e.Object, p)
	}
	var s status
	switch err := json.Unmarshal(e.Object, &s); {
	case err != nil:
		return err
	case s.Code == http.StatusGone:
		return errGone
	}
	return errors.New(s.Message)
}

// capped reads a bounded number of bytes.
type capped struct {
	r    io.Reader
	left int64
}

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", int64(maxBody))

// Read implements [io.Reader].
func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}
