// Package deploytest tries the manifests of deploy/ on a real API server: what each identity may do and what it may not,
// and what the definitions of our kinds refuse. It holds tests only.
package deploytest
