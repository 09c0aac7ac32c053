//go:build never

// Package kinds pins the modules whose CustomResourceDefinitions the lab installs. Their Go code is not used.
package kinds

import (
	_ "github.com/openshift/api/annotations"
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
)
