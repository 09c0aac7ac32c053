// Package lab brings up a real Kubernetes control plane and real Windows programs on one
// Linux machine, for tests and for the demo. A host is Wine in namespaces of its own with
// its own name, address, drive C:, registry, services and SSH server; kubelet.exe and
// containerd.exe run on it, join the control plane and run pods. Everything is built once and kept
// in a cache, and everything that was started goes when the process that started it does.
// README.md tells how it works and what it cannot show.
package lab
