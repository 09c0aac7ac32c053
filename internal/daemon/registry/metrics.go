package registry

// Result is how a request of the registry ended.
type Result int

// The results.
const (
	// Served: content was handed on, or it was said that it is there.
	Served Result = iota
	// NotFound: nobody has it.
	NotFound
	// Denied: nobody may be asked.
	Denied
	// Failed: nobody answered as a registry does.
	Failed
	// Unauthorized: the request came without the certificate of the host's containerd.
	Unauthorized
	results = iota
)

// String is the value of the metric's label.
func (r Result) String() string {
	return [results]string{"served", "not_found", "denied", "failed", "unauthorized"}[r]
}

// Counts are how often requests ended with each result since the daemon started.
func (s *Server) Counts() map[string]int64 {
	counts := map[string]int64{}
	for r := range results {
		counts[Result(r).String()] = s.counts[r].Load()
	}
	return counts
}
