package configure

// leaving is a host from which is taken off what is ours.
type leaving struct {
	work
	cluster string
	// program is the file of the program that runs; empty when it is not known.
	program string
	// isOurs is true when the host was joined, or has services of ours: then data of containerd and the kubelet are ours, too.
	isOurs  bool
	former  former
	remains remains
}
