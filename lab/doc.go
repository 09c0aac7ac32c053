// Package lab runs a real Kubernetes control plane and real Windows programs on one Linux machine, for tests and for the demo. A host is Wine in its
// own namespaces, with its own name, address, drive C:, registry, services and SSH server; kubelet.exe and containerd.exe run on it, join the control
// plane and run pods. Programs are built once and cached. Everything ends with the process that started it. README.md explains how it works and what
// it cannot show.
package lab
