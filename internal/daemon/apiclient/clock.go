package apiclient

import (
	"net/http"
	"sync"
	"time"
)

// maxRoundTrip is how long an answer may be on its way to tell the time.
const maxRoundTrip = 5 * time.Second

// Clock compares the clock of the API server with that of this host, by the header Date of each answer.
type Clock struct {
	mu    sync.Mutex
	ahead time.Duration
	isNew bool
}

// Ahead returns by how much the clock of the API server is ahead, to a few seconds. Each comparison is returned once; isNew is false
// when there was none since the last call.
func (c *Clock) Ahead() (ahead time.Duration, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew, c.isNew = c.isNew, false
	return c.ahead, isNew
}

// compare takes notice of an answer to a request that was sent at a time.
func (c *Clock) compare(sent, received time.Time, date string) {
	at, err := http.ParseTime(date)
	trip := received.Sub(sent) // by the monotonic clock, which nobody sets
	if err != nil || trip > maxRoundTrip {
		return
	}
	const half = time.Second / 2 // the header has whole seconds
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.isNew = at.Add(half).Sub(sent.Round(0).Add(trip/2)), true
}

// timed is a transport whose answers tell a clock the time.
type timed struct {
	http.RoundTripper
	clock *Clock
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	answer, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		t.clock.compare(sent, time.Now(), answer.Header.Get("Date"))
	}
	return answer, err
}
