// Package deploytest tests the manifests of deploy/ on a real API server: which requests of each identity it admits and rejects, and
// which values the schemas of the operator's kinds reject.
package deploytest
