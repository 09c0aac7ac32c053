module github.com/windows-machine-config/wmco/lab/cluster/openshift/kinds

go 1.26.0

require (
	github.com/openshift/api v0.0.0-20260729135743-72624b98ff3d
	sigs.k8s.io/cluster-api v1.14.2
)
