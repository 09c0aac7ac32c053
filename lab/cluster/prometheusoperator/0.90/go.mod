// Only the kinds of this version are read; nothing is built.
module github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator/0.90

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.90.1
