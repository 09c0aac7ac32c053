// Package podnetwork keeps the network of pods: what must be there is compared with what Windows' Host Network Service has, and what was
// lost is repaired.
package podnetwork
