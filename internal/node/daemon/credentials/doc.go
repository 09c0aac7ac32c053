// Package credentials manages the files with which WICD and the kubelet authenticate to the API server: certificates, keys, and the bootstrap token
// of a join.
package credentials
