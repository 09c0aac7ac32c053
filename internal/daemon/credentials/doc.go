// Package credentials knows the files with which WICD and the kubelet show the API server who they are: certificates, keys, and the
// bootstrap token of a join.
package credentials
