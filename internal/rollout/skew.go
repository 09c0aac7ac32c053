package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// olderMinors is how many minor versions a kubelet may be older than the API server (Kubernetes' version skew policy).
const olderMinors = 3

// Unfit says why nodes with this kubelet do not go with this API server; empty when they do, or when either version is not known. A
// kubelet must not be newer than the API server, and at most three minor versions older.
func Unfit(kubelet, server string) string {
	k, err1 := version.ParseGeneric(kubelet)
	s, err2 := version.ParseGeneric(server)
	if err1 != nil || err2 != nil || k.Major() != s.Major() {
		return ""
	}
	switch {
	case k.Minor() > s.Minor():
		return fmt.Sprintf("its kubelet %s is newer than the API server %s; upgrade the cluster first", kubelet, server)
	case k.Minor()+olderMinors < s.Minor():
		return fmt.Sprintf("its kubelet %s is more than %d minor versions older than the API server %s; install an operator with a later kubelet",
			kubelet, olderMinors, server)
	}
	return ""
}
