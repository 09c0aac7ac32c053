// Package upstream pins the version of Kubernetes' own tests.
package upstream

import _ "k8s.io/kubernetes/test/e2e"
