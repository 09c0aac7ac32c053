// Package verify tests a release with programs of other projects: it builds one as the workflow does, pushes it to a test registry, and
// verifies it with the libraries of cosign and syft, the schema of CycloneDX and krew's validator. "make verify-release" runs it. It is a
// separate module because these are large.
package verify
