// Package deploytest tests the manifests of deploy/ on a real API server: which requests each identity can make and which it
// cannot, and what the definitions of our kinds reject.
package deploytest
