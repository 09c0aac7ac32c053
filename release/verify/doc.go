// Package verify tests a release with the programs of others: it makes one as the workflow does, pushes it to a registry of the test, and
// verifies it with the libraries of cosign and syft, the schema of CycloneDX and krew's validator. "make verify-release" runs it; it is a
// module of its own because these are large.
package verify
