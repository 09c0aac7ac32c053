// Package servers simulates the servers that hosts speak to: the API server of a cluster, and the metadata service of a cloud.
package servers
