package registry

// Result is how a request of the registry ended.
type Result int

// The results.
const (
	// Served: content was forwarded, or reported as present.
	Served Result = iota
	// NotFound: no registry has it.
	NotFound
	// Denied: no registry may be queried.
	Denied
	// Failed: no registry gave a valid answer.
	Failed
	// Unauthorized: the request came without the certificate of the host's containerd.
	Unauthorized
	results = iota
)

// String is the value of the metric's label.
func (r Result) String() string {
	return [results]string{"served", "not_found", "denied", "failed", "unauthorized"}[r]
}

// Counts returns how many requests ended with each result since the daemon started.
func (s *Server) Counts() map[string]int64 {
	counts := map[string]int64{}
	for r := range results {
		counts[Result(r).String()] = s.counts[r].Load()
	}
	return counts
}
