package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingero/benchmarks/figure"
)

// pageQuestions are the requests of the dashboard's page for a window, at its start and for each
// new window. The last is made when the user selects it.
var pageQuestions = []string{"processes", "explain", "timeline", "heatmap", "ops?per_process=1", "flame?what=time", "memory", "gpus", "collectives",
	"graph-metrics", "flame?what=memory"}

// pageAtOnce is the number of concurrent requests.
const pageAtOnce = 3

// page times the requests of the `ingero dashboard` page on a recording of 20,000 calls per second:
// each alone, and all together as the page makes them. If there is a Chromium, it also times them
// until they are drawn.
func page(dir string, o *options) error {
	path := o.db
	if path == "" {
		path = filepath.Join(dir, "x.db")
	}
	if _, err := os.Stat(path); err != nil {
		if err := pageStore(path, o.events); err != nil {
			return err
		}
	}
	ingero := filepath.Join(dir, "ingero")
	if out, err := exec.Command("go", "build", "-o", ingero, "./cmd/ingero").CombinedOutput(); err != nil {
		return fmt.Errorf("build ingero: %w: %s", err, out)
	}
	cmd := exec.Command(ingero, "dashboard", "--no-tls", "--addr", ":0", "--db", path)
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	base := regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
	if base == "" {
		return fmt.Errorf("it does not serve: %q, %w", line, err)
	}
	var overview struct {
		From, To time.Time
		Calls    int
	}
	text, err := fetch(base + "/api/v1/overview")
	if err == nil {
		err = json.Unmarshal(text, &overview)
	}
	if err != nil {
		return err
	}
	fmt.Printf("page: %d calls over %s\n", overview.Calls, overview.To.Sub(overview.From).Round(time.Second))
	for _, w := range []struct {
		name string
		from time.Time
	}{{"all", overview.From}, {"last 15 min", overview.To.Add(-15 * time.Minute)}, {"last minute", overview.To.Add(-time.Minute)}} {
		if err := pageWindow(base, w.name, w.from, overview.To); err != nil {
			return err
		}
	}
	return drawn(base)
}

// pageStore makes the recording.
func pageStore(path string, events int) error {
	s, err := newStream(explainRate, time.Second, 1)
	if err != nil {
		return err
	}
	s.reported = true
	db, err := s.open(path, 0)
	if err != nil {
		return err
	}
	for s.fed() < events {
		if err := s.feed(db, 8, nil); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

// pageWindow times the answers for one window.
func pageWindow(base, name string, from, to time.Time) error {
	var all []string
	for i, q := range append([]string{"overview"}, pageQuestions...) {
		u, err := url.Parse(base + "/api/v1/" + q)
		if err != nil {
			return err
		}
		if v := u.Query(); q != "overview" {
			v.Set("from", strconv.FormatInt(from.UnixNano(), 10))
			v.Set("to", strconv.FormatInt(to.UnixNano(), 10))
			u.RawQuery = v.Encode()
		}
		if all = append(all, u.String()); i == len(pageQuestions) {
			all = all[:i]
		}
		size := 0
		if err := timed(name+": "+q, func() error {
			text, err := fetch(u.String())
			size = len(text)
			return err
		}); err != nil {
			return err
		}
		fmt.Printf("  %-40s %d bytes\n", "", size)
	}
	return timed(name+": all of them", func() error {
		var asking sync.WaitGroup
		turns, errs := make(chan struct{}, pageAtOnce), make(chan error, len(all))
		for _, u := range all {
			asking.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				_, err := fetch(u)
				errs <- err
			})
		}
		asking.Wait()
		close(errs)
		var err error
		for e := range errs {
			err = errors.Join(err, e)
		}
		return err
	})
}

func fetch(u string) (text []byte, err error) {
	r, err := http.Get(u) //nolint:gosec // of this machine
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	if text, err = io.ReadAll(r.Body); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d: %s", u, r.StatusCode, text)
	}
	return text, err
}

// paint measures in the browser: the first paint, the first answer and the last of the answers, in
// ms from the request of the page.
const paint = `await page.goto(args);
await until(() => document.querySelector("#capabilities") && !document.querySelector("[aria-busy=true]"));
return await page.evaluate(() => {
  const end = (path) => performance.getEntriesByType("resource").filter((e) => e.name.includes(path)).map((e) => e.responseEnd);
  const first = performance.getEntriesByName("first-contentful-paint")[0];
  return [first ? first.startTime : -1, Math.max(...end("/api/v1/explain")), Math.max(...end("/api/v1/").filter((t) => t > 0))];
});`

// drawn times the page in a browser, if there is one (tools/browser.sh).
func drawn(base string) error {
	packages, err := filepath.Abs("bin/browser")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(packages, "version")); err != nil {
		fmt.Println("  no browser: tools/browser.sh fetches what drives it")
		return nil
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return err
	}
	var lines []string
	for range answers / 2 {
		line, err := json.Marshal(map[string]string{"script": paint, "args": base + "/"})
		if err != nil {
			return err
		}
		lines = append(lines, string(line))
	}
	cmd := exec.Command("node", "test/browser/driver.mjs", packages, chromium)
	cmd.Stderr = os.Stderr
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	names := []string{"first paint", "what is wrong is known", "all is known"}
	took := make([][]float64, len(names))
	for line := range strings.Lines(string(out)) {
		var got struct {
			Value []float64
			Error string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || len(got.Value) != len(names) {
			return fmt.Errorf("in the browser: %s (%w)", line, err)
		}
		for i, v := range got.Value {
			took[i] = append(took[i], v)
		}
	}
	for i, name := range names {
		fmt.Printf("  %-40s %s ms\n", "in Chromium: "+name, figure.Spread(took[i]).Text("%.0f"))
	}
	return nil
}
