package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const clients = 16

// load is a number of clients that send requests at a constant rate.
type load struct {
	url   string
	ended chan struct{}
	work  sync.WaitGroup

	mu   sync.Mutex
	took []time.Duration
	err  error // of the last failed request
}

func startLoad(port string, rate int) *load {
	l := &load{url: "http://127.0.0.1:" + port + "/v1/completions", ended: make(chan struct{})}
	for range clients {
		l.work.Go(func() { l.run(time.Second * clients / time.Duration(rate)) })
	}
	return l
}

// run sends requests on one connection.
func (l *load) run(every time.Duration) {
	c := &http.Client{Transport: &http.Transport{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-tick.C:
		}
		began := time.Now()
		err := request(c, l.url)
		l.mu.Lock()
		if err != nil {
			l.err = err
		} else {
			l.took = append(l.took, time.Since(began))
		}
		l.mu.Unlock()
	}
}

func request(c *http.Client, url string) error {
	r, err := c.Post(url, "application/json", strings.NewReader(`{"prompt":"one two three","max_tokens":5,"stream":true}`))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// take returns the latencies of the requests since the last call, in order of length.
func (l *load) take() (took []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took, l.took = l.took, nil
	slices.Sort(took)
	return took
}

func (l *load) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *load) stop() {
	close(l.ended)
	l.work.Wait()
}
