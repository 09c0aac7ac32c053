// Wicd-cni is the network plugin that holds back the containers of a pod until WICD has applied the pod's network policies; see package
// policycni. containerd runs it for each pod, so it avoids packages that would make it large.
package main

import (
	"os"

	"github.com/windows-machine-config/wmco/internal/node/policycni"
)

func main() { os.Exit(policycni.Main(dial)) }
