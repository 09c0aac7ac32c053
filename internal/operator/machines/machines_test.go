package machines

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
)

const (
	ofMachineAPI = "machine.openshift.io/v1beta1"
	ofClusterAPI = "cluster.x-k8s.io/v1beta2"
)

// machine returns a Windows Machine of an API, with further content from YAML.
func machine(t *testing.T, apiVersion, name, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	if o.Object == nil {
		o.Object = map[string]any{}
	}
	o.SetAPIVersion(apiVersion)
	o.SetKind(Kind)
	o.SetNamespace("machines")
	o.SetName(name)
	if o.GetLabels() == nil {
		o.SetLabels(map[string]string{api.LabelMachineOS: "Windows"})
	}
	return o
}

func decide(t *testing.T, o *unstructured.Unstructured, platform string) Decision {
	t.Helper()
	m, err := Read(o)
	if err != nil {
		t.Fatal(err)
	}
	return Decide(m, Cluster{Namespace: "operator", Platform: platform})
}

const running = "status: {phase: Running, addresses: [{type: InternalIP, address: 10.0.0.5}]}\n"

func TestMachineWithAddressYieldsInstance(t *testing.T) {
	tests := map[string]struct {
		api, manifest, platform string
		address, user, hostname string
	}{
		"provisioned, without a node yet": {ofMachineAPI, "status: {phase: Provisioned, nodeRef: null, addresses: [{type: InternalIP, address: 10.0.0.5}]}", "AWS",
			"10.0.0.5", "Administrator", ""},
		"running": {ofMachineAPI, running, "GCP", "10.0.0.5", "Administrator", ""},
		"first internal IPv4 address": {ofMachineAPI, `status: {phase: Running, addresses: [{type: ExternalIP, address: 1.2.3.4}, {type: Hostname, address: 10.0.0.1},
  {type: InternalIP, address: "fd00::5"}, {type: InternalIP, address: 169.254.3.4}, {type: InternalIP, address: 10.0.0.6}, {type: InternalIP, address: 10.0.0.5}]}`, "AWS",
			"10.0.0.6", "Administrator", ""},
		"cluster on Azure":              {ofMachineAPI, running, "Azure", "10.0.0.5", "capi", ""},
		"Azure from the Machine":        {ofMachineAPI, running + "spec: {providerSpec: {value: {kind: AzureMachineProviderSpec}}}", "", "10.0.0.5", "capi", ""},
		"Machine overrides the cluster": {ofMachineAPI, running + "spec: {providerSpec: {value: {kind: AWSMachineProviderConfig}}}", "Azure", "10.0.0.5", "Administrator", ""},
		"vSphere":                       {ofMachineAPI, running, "VSphere", "10.0.0.5", "Administrator", "winworker-abcde"}, // https://github.com/kubernetes/kubernetes/issues/106640
		"Nutanix":                       {ofMachineAPI, running + "spec: {providerSpec: {value: {kind: NutanixMachineProviderConfig}}}", "", "10.0.0.5", "Administrator", "winworker-abcde"},
		"Cluster API":                   {ofClusterAPI, running, "AWS", "10.0.0.5", "Administrator", ""},
		"Cluster API v1beta1":           {"cluster.x-k8s.io/v1beta1", running, "", "10.0.0.5", "Administrator", ""},
		"Cluster API on Azure":          {ofClusterAPI, running + "spec: {infrastructureRef: {kind: AzureMachine}}", "", "10.0.0.5", "capi", ""},
		"Cluster API on vSphere":        {ofClusterAPI, running + "spec: {infrastructureRef: {kind: VSphereMachine}}", "", "10.0.0.5", "Administrator", "winworker-abcde"},
		"unknown platform":              {ofClusterAPI, running + "spec: {infrastructureRef: {kind: DockerMachine}}", "", "10.0.0.5", "Administrator", ""},
		"ignore set to false":           {ofMachineAPI, running + "metadata: {labels: {machine.openshift.io/os-id: Windows, windowsmachineconfig.openshift.io/ignore: 'false'}}", "AWS", "10.0.0.5", "Administrator", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(t, machine(t, test.api, "winworker-abcde", test.manifest), test.platform)
			if d.Verdict != Want || d.Fault != "" {
				t.Fatalf("got %+v", d)
			}
			i := d.Instance
			if i.Name != "winworker-abcde" || i.Namespace != "operator" || i.Annotations[api.AnnotationMachine] != "machines/winworker-abcde" {
				t.Errorf("the instance is %+v", i.ObjectMeta)
			}
			source := api.SourceMachine
			if strings.HasPrefix(test.api, ClusterAPIGroup) {
				source = api.SourceClusterAPI
			}
			if i.Labels[api.LabelSource] != source {
				t.Errorf("its source is %q, want %q", i.Labels[api.LabelSource], source)
			}
			if i.Spec.Address != test.address || i.Spec.Username != test.user || i.Spec.Hostname != test.hostname {
				t.Errorf("got %+v, want %s, %s, %q", i.Spec, test.address, test.user, test.hostname)
			}
		})
	}
}

func TestMachineVerdicts(t *testing.T) {
	deleted := "metadata: {deletionTimestamp: '2026-01-02T03:04:05Z', labels: {machine.openshift.io/os-id: Windows}}\n"
	tests := map[string]struct {
		api, manifest string
		want          Verdict
	}{
		"being deleted": {ofMachineAPI, deleted + running, Gone},
		"being deleted without the Windows label": {ofMachineAPI, "metadata: {deletionTimestamp: '2026-01-02T03:04:05Z', labels: {a: b}}\n" + running, Gone},
		"phase Deleting":     {ofMachineAPI, "status: {phase: Deleting}", Gone},
		"phase Deleted":      {ofClusterAPI, "status: {phase: Deleted}", Gone},
		"of Linux":           {ofMachineAPI, "metadata: {labels: {a: b}}\n" + running, Leave},
		"of another Windows": {ofMachineAPI, "metadata: {labels: {machine.openshift.io/os-id: windows}}\n" + running, Leave},
		"ignored":            {ofMachineAPI, "metadata: {labels: {machine.openshift.io/os-id: Windows, windowsmachineconfig.openshift.io/ignore: 'true'}}\n" + running, Leave},
		"no phase yet":       {ofMachineAPI, "status: {addresses: [{type: InternalIP, address: 10.0.0.5}]}", Keep},
		"no status yet":      {ofMachineAPI, "", Keep},
		"provisioning":       {ofClusterAPI, "status: {phase: Provisioning, addresses: [{type: InternalIP, address: 10.0.0.5}]}", Keep},
		"failed":             {ofMachineAPI, "status: {phase: Failed, addresses: [{type: InternalIP, address: 10.0.0.5}]}", Keep},
		"without addresses":  {ofMachineAPI, "status: {phase: Running, addresses: null}", Keep},
		"with a name only":   {ofMachineAPI, "status: {phase: Running, addresses: [{type: InternalDNS, address: ip-10-0-0-5.local}]}", Keep},
		"of the Machine API while Cluster API is authoritative": {ofMachineAPI, "spec: {authoritativeAPI: ClusterAPI}\n" + running, Keep},
		"of the Machine API, authoritative":                     {ofMachineAPI, "spec: {authoritativeAPI: MachineAPI}\n" + running, Want},
		"of Cluster API, a mirror":                              {ofClusterAPI, "metadata: {annotations: {cluster.x-k8s.io/paused: ''}, labels: {machine.openshift.io/os-id: Windows}}\n" + running, Keep},
	}
	for name, test := range tests {
		if d := decide(t, machine(t, test.api, "m", test.manifest), "AWS"); d.Verdict != test.want || d.Fault != "" {
			t.Errorf("%s: got %+v, want %s", name, d, test.want)
		}
	}
}

func TestUnsuitableMachineReportsFault(t *testing.T) {
	address := func(text string) string {
		return fmt.Sprintf("status: {phase: Running, addresses: [{type: InternalIP, address: '%s'}]}", text)
	}
	tests := map[string]struct{ name, manifest, platform, fault, message string }{
		"IPv6 only":                       {"m", address("fd00::5"), "AWS", FaultAddress, `"fd00::5"`},
		"link-local address":              {"m", address("169.254.1.1"), "AWS", FaultAddress, "IPv4"},
		"unspecified address":             {"m", address("0.0.0.0"), "AWS", FaultAddress, "0.0.0.0"},
		"broadcast address":               {"m", address("255.255.255.255"), "AWS", FaultAddress, "255"},
		"not an address":                  {"m", address("win-1"), "AWS", FaultAddress, `"win-1"`},
		"name longer than Windows allows": {"windows-worker-abcde", running, "VSphere", FaultName, "20 characters"}, // https://github.com/kubernetes-sigs/cluster-api/issues/2217
		"name with a dot":                 {"win.worker", running, "Nutanix", FaultName, "dot"},
		"name of digits":                  {"1234", running, "Nutanix", FaultName, "digits"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(t, machine(t, ofMachineAPI, test.name, test.manifest), test.platform)
			if d.Verdict != Keep || d.Instance != nil || d.Fault != test.fault || !strings.Contains(d.Message, test.message) {
				t.Errorf("got %+v, want fault %s containing %q", d, test.fault, test.message)
			}
		})
	}
	if d := decide(t, machine(t, ofMachineAPI, "windows-worker-abcde", running), "AWS"); d.Verdict != Want {
		t.Errorf("a long name is refused where the host is not named after it: %+v", d)
	}
}

func TestWrongFieldTypeIsReported(t *testing.T) {
	for manifest, field := range map[string]string{
		"status: {addresses: {}}":                                 "status.addresses",
		"status: {addresses: [{type: InternalIP, address: [1]}]}": "status.addresses.address",
		"status: {phase: 7}":                                      "status.phase",
		"spec: {providerSpec: {value: [1]}}":                      "spec.providerSpec.value",
		"spec: 7":                                                 "spec",
	} {
		if _, err := Read(machine(t, ofMachineAPI, "m", manifest)); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "machines/m") {
			t.Errorf("%s: error %v does not name field %s and the Machine", manifest, err, field)
		}
	}
	// The API server does not validate the platforms' content, so it may have any type.
	if m, err := Read(machine(t, ofMachineAPI, "m", "spec: {providerSpec: {value: {kind: 7}}}")); err != nil || m.Platform != "" {
		t.Errorf("got %+v, %v", m, err)
	}
}
