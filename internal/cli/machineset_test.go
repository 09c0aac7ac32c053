package cli_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// openShift returns a cluster of a platform with a MachineSet for Linux.
func openShift(t *testing.T, platform, provider string) *clitest.Cluster {
	t.Helper()
	c := empty(t)
	add := func(resource, text string) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		c.Add(resource, &unstructured.Unstructured{Object: object})
	}
	add("config.openshift.io/v1/infrastructures", "apiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\n"+
		"status: {infrastructureName: lab-x7k2p, platformStatus: {type: "+platform+"}}\n")
	add("machine.openshift.io/v1beta1/machinesets", "apiVersion: machine.openshift.io/v1beta1\nkind: MachineSet\nmetadata: {name: lab-worker-a, namespace: openshift-machine-api}\n"+
		"spec: {template: {spec: {providerSpec: {value: "+provider+"}}}}\n")
	return c
}

func TestMachineSets(t *testing.T) {
	for platform, test := range map[string]struct {
		provider string // of the Linux MachineSet
		args     []string
	}{
		"AWS":     {`{kind: AWSMachineProviderConfig, ami: {id: ami-linux}, instanceType: m5.large, subnet: {id: subnet-1}, userDataSecret: {name: worker-user-data}}`, []string{"--image", "ami-windows"}},
		"Azure":   {`{kind: AzureMachineProviderSpec, image: {resourceID: /linux}, osDisk: {osType: Linux, diskSizeGB: 128}, vmSize: Standard_D2s_v3}`, []string{"--replicas", "2"}},
		"GCP":     {`{kind: GCPMachineProviderSpec, disks: [{image: linux, sizeGb: 128}], machineType: n1-standard-4}`, nil},
		"VSphere": {`{kind: VSphereMachineProviderSpec, template: linux, numCPUs: 4, memoryMiB: 16384, diskGiB: 128}`, []string{"--platform", "vsphere", "--image", "windows-2022"}},
		"Nutanix": {`{kind: NutanixMachineProviderConfig, image: {type: name, name: linux}, vcpusPerSocket: 2, vcpuSockets: 4, memorySize: 16Gi, systemDiskSize: 120Gi}`, []string{"--image", "windows-2022"}},
	} {
		t.Run(platform, func(t *testing.T) {
			r := openShift(t, platform, test.provider).Run(t, "", append([]string{"machineset"}, test.args...)...)
			if r.Code != session.CodeOK {
				t.Fatalf("exit code %d: %s", r.Code, r.Err)
			}
			golden(t, "machineset-"+strings.ToLower(platform)+".golden", r.Out)
		})
	}
}

func TestInvalidMachineSetsAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		platform string
		args     []string
		code     int
		wantErr  string
	}{
		"another platform": {"AWS", []string{"--platform", "azure"}, session.CodeUsage, "is aws, not azure"},
		"no image":         {"AWS", nil, session.CodeUsage, "--image is required on aws"},
		"a long name":      {"VSphere", []string{"--image", "x", "--name", "windows-workers"}, session.CodeUsage, "at most 9"},
		"bare metal":       {"BareMetal", nil, session.CodeFailed, "kubectl windows add"},
		"another template": {"AWS", []string{"--image", "x", "--like", "other"}, session.CodeNotFound, `MachineSet "other" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			r := openShift(t, test.platform, "{}").Run(t, "", append([]string{"machineset"}, test.args...)...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) {
				t.Errorf("exit code %d, want %d; stderr %q, want ...%s...", r.Code, test.code, r.Err, test.wantErr)
			}
		})
	}
	r := empty(t).Run(t, "", "machineset")
	if r.Code != session.CodeNotInstalled || !strings.Contains(r.Err, "not an OpenShift cluster") {
		t.Errorf("exit code %d: %s", r.Code, r.Err)
	}
}
