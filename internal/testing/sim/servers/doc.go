// Package servers simulates the servers that hosts use: the API server of a cluster, and the metadata service of a cloud.
package servers
