package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// Labels of the Machine API (github.com/openshift/api, machine/v1beta1).
const (
	labelCluster    = "machine.openshift.io/cluster-api-cluster"
	labelMachineSet = "machine.openshift.io/cluster-api-machineset"
)

// Annotations of a MachineSet that describe its future nodes to the cluster autoscaler while it has no Machines
// (cluster-autoscaler/cloudprovider/clusterapi/README.md in github.com/kubernetes/autoscaler). Without labelsOfNodes, the autoscaler assumes
// Linux nodes.
const (
	ofNodes           = "capacity.cluster-autoscaler.kubernetes.io/"
	labelsOfNodes     = ofNodes + "labels"
	taintsOfNodes     = ofNodes + "taints"
	processorsOfNodes = ofNodes + "cpu"
	memoryOfNodes     = ofNodes + "memory"
	diskOfNodes       = ofNodes + "ephemeral-disk"
)

type machineSetOptions struct {
	platform, name, like, image string
	replicas                    int64
}

// machineSet returns the command that prints a MachineSet for Windows nodes.
func machineSet(s *session.Session) *cobra.Command {
	var m machineSetOptions
	c := &cobra.Command{
		Use:   "machineset",
		Short: "Print a MachineSet for Windows nodes of this OpenShift cluster",
		Long: "Print a MachineSet for Windows nodes: a copy of a MachineSet for Linux of this cluster, with the image, the disk, the user data, the\n" +
			"label and the taint that Windows nodes need, and the annotations with which the cluster autoscaler scales it from zero. The command\n" +
			"changes nothing: review the output, and apply it with kubectl apply -f -.\n\n" +
			"On Azure and GCP, the image defaults to Windows Server 2022; on other platforms, set --image.",
		Example: "  kubectl windows machineset --image ami-0abc > windows.yaml\n  kubectl windows machineset --platform azure --name winworker --replicas 2",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			object, err := m.make(c.Context(), s)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(object.Object)
			if err == nil {
				_, err = s.Out.Write(text)
			}
			return err
		},
	}
	platforms := slices.Sorted(maps.Keys(machinePlatforms()))
	c.Flags().StringVar(&m.platform, "platform", "", "Platform: "+strings.Join(platforms, ", ")+". Defaults to the platform of the cluster.")
	c.Flags().StringVar(&m.name, "name", "winworker", "Name of the MachineSet. On Azure, vSphere and Nutanix, at most 9 characters.")
	c.Flags().StringVar(&m.like, "like", "", "Name of the MachineSet to copy. Defaults to the first one that is not for Windows.")
	c.Flags().StringVar(&m.image, "image", "", "Image: an AMI, a SKU of WindowsServer on Azure, an image on GCP, a template on vSphere, the name of an image on Nutanix.")
	c.Flags().Int64Var(&m.replicas, "replicas", 1, "Number of Machines.")
	return c
}

// machinePlatform holds the differences between platforms: the type in Infrastructure, the default image, whether names must be short, and how
// the image is set in the provider specification (github.com/openshift/api, machine/v1beta1 and v1).
type machinePlatform struct {
	infrastructure, image string
	shortNames            bool
	set                   func(spec map[string]any, image string) error
	// size reads the machine size from the provider specification; nil if that contains only the name of a size that the cloud defines.
	size func(spec map[string]any) machineSize
}

// machineSize is the size of a machine, as Kubernetes quantities; empty if unknown.
type machineSize struct{ processors, memory, disk string }

func machinePlatforms() map[string]machinePlatform {
	return map[string]machinePlatform{
		"aws": {"AWS", "", false, func(spec map[string]any, image string) error {
			spec["ami"] = map[string]any{"id": image}
			return nil
		}, nil},
		"azure": {"Azure", "2022-datacenter", true, func(spec map[string]any, image string) error {
			spec["image"] = map[string]any{"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer", "sku": image, "version": "latest", "resourceID": ""}
			return setNested(spec, "Windows", "osDisk", "osType")
		}, nil},
		"gcp": {"GCP", "projects/windows-cloud/global/images/family/windows-2022-core", false, func(spec map[string]any, image string) error {
			disks, _ := spec["disks"].([]any)
			if len(disks) == 0 {
				return session.Failf(session.CodeFailed, "the MachineSet has no disks: choose another one with --like")
			}
			disk, _ := disks[0].(map[string]any)
			if disk == nil {
				return session.Failf(session.CodeFailed, "the disk of the MachineSet cannot be read: choose another one with --like")
			}
			disk["image"] = image
			return nil
		}, nil},
		"vsphere": {"VSphere", "", true, func(spec map[string]any, image string) error {
			spec["template"] = image
			return nil
		}, vSphereSize},
		"nutanix": {"Nutanix", "", true, func(spec map[string]any, image string) error {
			spec["image"] = map[string]any{"type": "name", "name": image}
			return nil
		}, nutanixSize},
	}
}

func vSphereSize(spec map[string]any) machineSize {
	return machineSize{processors: number(spec, "numCPUs", ""), memory: number(spec, "memoryMiB", "Mi"), disk: number(spec, "diskGiB", "Gi")}
}

func nutanixSize(spec map[string]any) machineSize {
	sockets, _, _ := unstructured.NestedInt64(spec, "vcpuSockets")
	each, _, _ := unstructured.NestedInt64(spec, "vcpusPerSocket")
	memory, _, _ := unstructured.NestedString(spec, "memorySize")
	disk, _, _ := unstructured.NestedString(spec, "systemDiskSize")
	size := machineSize{memory: memory, disk: disk}
	if sockets > 0 && each > 0 {
		size.processors = strconv.FormatInt(sockets*each, 10)
	}
	return size
}

// number returns a positive number of a provider specification with its unit, or "".
func number(spec map[string]any, field, unit string) string {
	n, _, _ := unstructured.NestedInt64(spec, field)
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10) + unit
}

func setNested(object map[string]any, value any, fields ...string) error {
	if err := unstructured.SetNestedField(object, value, fields...); err != nil {
		return session.Failf(session.CodeFailed, "the MachineSet cannot be changed: %w", err)
	}
	return nil
}

// maxShortName leaves room for the six characters that a Machine's name adds: Windows allows 15.
const maxShortName = 9

func (m machineSetOptions) make(ctx context.Context, s *session.Session) (*unstructured.Unstructured, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	infrastructure := &unstructured.Unstructured{}
	infrastructure.SetAPIVersion("config.openshift.io/v1")
	infrastructure.SetKind("Infrastructure")
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); apierrors.IsNotFound(err) {
		return nil, session.Failf(session.CodeNotInstalled, "this is not an OpenShift cluster: it has no Infrastructure cluster and no Machine API")
	} else if err != nil {
		return nil, session.Explain(err, "reading Infrastructure cluster")
	}
	current, _, _ := unstructured.NestedString(infrastructure.Object, "status", "platformStatus", "type")
	cluster, _, _ := unstructured.NestedString(infrastructure.Object, "status", "infrastructureName")
	platform, err := m.choose(current)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(session.MachineAPI().WithKind("MachineSetList"))
	if err := c.List(ctx, list, client.InNamespace(session.MachineNamespace)); err != nil {
		return nil, session.Explain(err, "listing MachineSets in namespace "+session.MachineNamespace)
	}
	template, err := m.template(list.Items)
	if err != nil {
		return nil, err
	}
	return m.windows(template, cluster, platform)
}

// choose returns the platform of the cluster. It must match the flag, if set.
func (m *machineSetOptions) choose(infrastructure string) (machinePlatform, error) {
	for name, p := range machinePlatforms() {
		if p.infrastructure != infrastructure {
			continue
		}
		switch {
		case m.platform != "" && m.platform != name:
			return p, session.Failf(session.CodeUsage, "the platform of this cluster is %s, not %s", name, m.platform)
		case m.image == "" && p.image == "":
			return p, session.Failf(session.CodeUsage, "--image is required on %s", name)
		case p.shortNames && len(m.name) > maxShortName:
			return p, session.Failf(session.CodeUsage, "--name %s has %d characters; on %s, at most %d are allowed, because the names of Windows hosts have at most 15", m.name,
				len(m.name), name, maxShortName)
		}
		return p, nil
	}
	return machinePlatform{}, session.Failf(session.CodeFailed, "platform %q of this cluster does not support MachineSets for Windows: add hosts with kubectl windows add", infrastructure)
}

func (m machineSetOptions) template(all []unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for i := range all {
		labels, _, _ := unstructured.NestedStringMap(all[i].Object, "spec", "template", "metadata", "labels")
		if m.like == "" && labels[api.LabelMachineOS] == "" || m.like != "" && all[i].GetName() == m.like {
			return &all[i], nil
		}
	}
	if m.like != "" {
		return nil, session.Failf(session.CodeNotFound, "MachineSet %q not found in namespace %s", m.like, session.MachineNamespace)
	}
	return nil, session.Failf(session.CodeFailed, "namespace %s has no MachineSet for Linux to copy", session.MachineNamespace)
}

func (m machineSetOptions) windows(template *unstructured.Unstructured, cluster string, p machinePlatform) (*unstructured.Unstructured, error) {
	value, found, err := unstructured.NestedMap(template.Object, "spec", "template", "spec", "providerSpec", "value")
	if err != nil || !found {
		return nil, session.Failf(session.CodeFailed, "MachineSet %s has no provider specification: choose another one with --like", template.GetName())
	}
	if err := p.set(value, cmp.Or(m.image, p.image)); err != nil {
		return nil, err
	}
	value["userDataSecret"] = map[string]any{"name": api.UserDataSecret}
	selector := map[string]any{labelCluster: cluster, labelMachineSet: m.name}
	labels := map[string]any{
		labelCluster: cluster, labelMachineSet: m.name, api.LabelMachineOS: "Windows",
		"machine.openshift.io/cluster-api-machine-role": "worker", "machine.openshift.io/cluster-api-machine-type": "worker",
	}
	var size machineSize
	if p.size != nil {
		size = p.size(value)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": template.GetAPIVersion(), "kind": "MachineSet",
		"metadata": map[string]any{
			"name": m.name, "namespace": session.MachineNamespace, "labels": map[string]any{labelCluster: cluster}, "annotations": forAutoscaler(size),
		},
		"spec": map[string]any{
			"replicas": m.replicas,
			"selector": map[string]any{"matchLabels": selector},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"metadata":     map[string]any{"labels": map[string]any{api.LabelWorker: ""}},
					"taints":       []any{map[string]any{"key": api.TaintKey, "value": api.TaintValue, "effect": "NoSchedule"}},
					"providerSpec": map[string]any{"value": value},
				},
			},
		},
	}}, nil
}

// forAutoscaler returns the annotations for the cluster autoscaler. If the cloud defines the size, OpenShift's Machine controllers annotate it.
func forAutoscaler(size machineSize) map[string]any {
	annotations := map[string]any{
		labelsOfNodes: corev1.LabelOSStable + "=windows," + corev1.LabelArchStable + "=amd64," + api.LabelWorker + "=",
		taintsOfNodes: api.TaintKey + "=" + api.TaintValue + ":" + string(corev1.TaintEffectNoSchedule),
	}
	for name, value := range map[string]string{processorsOfNodes: size.processors, memoryOfNodes: size.memory, diskOfNodes: size.disk} {
		if value != "" {
			annotations[name] = value
		}
	}
	return annotations
}
