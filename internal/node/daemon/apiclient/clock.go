package apiclient

import (
	"net/http"
	"sync"
	"time"
)

// maxRoundTrip is the maximum round-trip time of a response that is used to compare clocks.
const maxRoundTrip = 5 * time.Second

// Clock compares the API server's clock with the host's, by the header Date of each response.
type Clock struct {
	mu    sync.Mutex
	ahead time.Duration
	isNew bool
}

// Ahead returns by how much the API server's clock is ahead, to within a few seconds. Each comparison is returned once; isNew is false when there
// was none since the last call.
func (c *Clock) Ahead() (ahead time.Duration, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew, c.isNew = c.isNew, false
	return c.ahead, isNew
}

// compare records a response with its header Date.
func (c *Clock) compare(sent, received time.Time, date string) {
	at, err := http.ParseTime(date)
	trip := received.Sub(sent) // by the monotonic clock, which is never set
	if err != nil || trip > maxRoundTrip {
		return
	}
	const half = time.Second / 2 // the header has whole seconds
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.isNew = at.Add(half).Sub(sent.Round(0).Add(trip/2)), true
}

// timed is a transport that passes the time of responses to a clock.
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
