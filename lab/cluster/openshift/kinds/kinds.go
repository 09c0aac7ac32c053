//go:build never

// Package kinds pins the modules whose CustomResourceDefinitions the lab installs. Nothing of their Go code is used.
package kinds

import (
	_ "github.com/openshift/api/annotations"
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
)
