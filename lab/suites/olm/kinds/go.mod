// This module pins the kinds of OLM v1, of which the lab installs only the CustomResourceDefinitions.
module github.com/windows-machine-config/wmco/lab/suites/olm/kinds

go 1.26.3

require github.com/operator-framework/operator-controller v1.11.0
