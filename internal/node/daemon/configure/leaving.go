package configure

// leaving removes everything of the operator's from a host.
type leaving struct {
	work
	cluster string
	// program is the file of the running program; empty when unknown.
	program string
	// isOurs is true when the host has joined or has the operator's services: then the data of containerd and the kubelet belong to the operator,
	// too.
	isOurs bool
	former former
}
