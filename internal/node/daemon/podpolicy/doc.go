// Package podpolicy makes the NetworkPolicies of this host's pods effective: it follows the compiled sets of the namespaces that have
// pods here (WindowsPolicySet, package policyset), and keeps the ACLs of the pods' endpoints in Windows' Host Network Service as the sets
// require. It works without the API server from the sets that it has stored.
package podpolicy
