package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingero/internal/backoff"
)

// maxAnswer is how much of an answer is read, so that its connection can be reused.
const maxAnswer = 4 << 10

// run sends messages in order until Close.
func (s *Sink) run(ctx context.Context) {
	defer close(s.done)
	untried := backoff.Delays{First: s.o.Backoff, Most: s.o.Most}
	delays, quit := untried, s.quit
	for {
		m, ending := s.next()
		switch {
		case m == nil && ending:
			return
		case ctx.Err() != nil:
			s.settle(m, "trace-ended", nil)
			continue
		case m == nil:
			select {
			case <-s.came:
			case <-s.quit:
			}
			continue
		case delays != untried && time.Since(m.made) > s.o.Age:
			delays = untried
			s.settle(m, "too-old", nil)
			continue
		}
		wait, why, err := s.send(ctx, m)
		switch {
		case err == nil:
			delays = untried
			s.settle(m, "", nil)
		case why != "":
			delays = untried
			s.settle(m, why, err)
		default:
			s.failed(err)
			select {
			case <-time.After(min(max(wait, delays.Next()), s.o.Most)):
			case <-quit: // the end: there may be no time for the delay
				delays, quit = untried, nil
			case <-ctx.Done():
			}
		}
	}
}

// next returns the oldest message, which stays queued until it is settled.
func (s *Sink) next() (m *message, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		m = s.queue[0]
	}
	return m, s.ending
}

// settle removes a message from the queue, if it is still there, as sent or as lost for a reason.
func (s *Sink) settle(m *message, lost string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 && s.queue[0] == m {
		s.drop(0)
		if lost != "" {
			s.state.Lost[lost]++
		}
	} else if lost == "" && s.state.Lost["queue-full"] > 0 { // it was dropped in transit
		s.state.Lost["queue-full"]--
	}
	if lost == "" {
		s.state.Sent++
		s.state.Problem = ""
	} else if err != nil {
		s.state.Problem = err.Error()
	}
}

// failed records why a try failed, and logs new reasons.
func (s *Sink) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Problem != err.Error() {
		s.o.Log.Warn("notify", "to", s.to, "error", err)
	}
	s.state.Problem = err.Error()
}

// send tries once. why is the reason not to retry; wait is the receiver's requested delay.
func (s *Sink) send(ctx context.Context, m *message) (wait time.Duration, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL, bytes.NewReader(m.body))
	if err != nil {
		return 0, "refused", errors.New("the URL of the webhook is invalid")
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "ingero")
	r.Header.Set("Webhook-Id", m.id)
	r.Header.Set("Webhook-Timestamp", stamp)
	if len(s.key) > 0 {
		r.Header.Set("Webhook-Signature", sign(s.key, m.id, stamp, m.body))
	}
	answer, err := s.o.Client.Do(r)
	if err != nil {
		return 0, "", withoutURL(err)
	}
	defer func() { _ = answer.Body.Close() }() // read-only
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	err = fmt.Errorf("the webhook answered %d", answer.StatusCode)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return 0, "", nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		seconds, bad := strconv.Atoi(answer.Header.Get("Retry-After"))
		if bad != nil || seconds < 0 {
			seconds = 0
		}
		return time.Duration(min(seconds, 1<<20)) * time.Second, "", err
	}
	return 0, "refused", err
}

// sign returns a message's Standard Webhooks signature.
func sign(key []byte, id, stamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "%s.%s.", id, stamp) // a hash cannot fail
	_, _ = h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// withoutURL removes the address from an error, since it may contain a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
