package podrules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Check returns the problems of the spec of a pod for Windows nodes, decoded from JSON or YAML. Errors come first.
func Check(spec map[string]any) ([]Finding, error) {
	var pod corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
		return nil, fmt.Errorf("decoding the pod spec: %w", err)
	}
	hostProcess := hostProcessOf(&pod)
	found := slices.Concat(placement(&pod), hostProcess.findings(&pod), images(&pod), administrator(&pod))
	for _, rule := range Rules() {
		found = append(found, rule.broken(spec, hostProcess.all())...)
	}
	found = append(found, memory(&pod)...)
	slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(string(a.Severity), string(b.Severity)) }) // error, warning
	return found, nil
}

// placement checks that the pod runs on Windows nodes, and only there.
func placement(pod *corev1.PodSpec) (found []Finding) {
	const class = "Use a RuntimeClass for the build of Windows, which adds node selector and toleration; or "
	switch {
	case selectsAnother(pod.NodeSelector):
		found = append(found, Finding{Error, "nodeSelector", "The pod selects nodes of another operating system, and stays Pending; with a RuntimeClass for Windows, the API server rejects it.",
			"Select kubernetes.io/os: windows."})
	case pod.RuntimeClassName == nil && pod.NodeName == "" && !selectsNodes(pod):
		found = append(found, Finding{Error, "nodeSelector", "Nothing keeps the pod off Linux nodes.", class + "select kubernetes.io/os: windows."})
	}
	tolerates := func(value string) bool {
		return slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
			isKey := t.Key == api.TaintKey || t.Key == "" && t.Operator == corev1.TolerationOpExists
			isEffect := t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule
			return isKey && isEffect && (t.Operator == corev1.TolerationOpExists || t.Value == value)
		})
	}
	taint := api.TaintKey + "=" + api.TaintValue + ":NoSchedule"
	if pod.RuntimeClassName == nil && !tolerates(api.TaintValue) {
		f := Finding{Error, "tolerations", "The pod does not tolerate the taint " + taint + " of Windows nodes, and stays Pending.",
			class + "tolerate key " + api.TaintKey + " with value " + api.TaintValue + " and effect NoSchedule."}
		if tolerates(api.TaintValueLowerCase) {
			f.Severity = Warning
			f.Message = "The pod tolerates " + api.TaintValueLowerCase + ", but the taint of Windows nodes is " + taint + ", unless spec.taint of WindowsConfig says otherwise: it stays Pending."
		}
		found = append(found, f)
	}
	if pod.OS == nil {
		found = append(found, Finding{Warning, "os.name", "The API server checks the pod as a Linux pod, and level restricted of the Pod Security Standards rejects it.",
			"Set os.name: windows."})
	}
	return found
}

// hostProcess counts the containers of a pod, and those that are HostProcess containers. It lists those that contradict the pod.
type hostProcess struct {
	containers, host int
	contradict       []Finding
}

// IsHostProcess reports whether all containers of a pod are HostProcess containers. The API server accepts no mixture.
func IsHostProcess(pod *corev1.PodSpec) bool { return hostProcessOf(pod).all() }

func (h hostProcess) all() bool { return h.host > 0 && h.host == h.containers }

const (
	// hostProcessField is the field below the pod's spec and below a container.
	hostProcessField = "securityContext.windowsOptions.hostProcess"
	setForPod        = "Set it for the pod, not for containers."
)

// hostProcessOf reads a pod as validateWindowsHostProcessPod of k8s.io/kubernetes/pkg/apis/core/validation does, which checks it whatever
// os.name is. So no policy needs to: the API server rejects the pod first.
func hostProcessOf(pod *corev1.PodSpec) (h hostProcess) {
	of := func(o *corev1.WindowsSecurityContextOptions) *bool {
		return cmp.Or(o, &corev1.WindowsSecurityContextOptions{}).HostProcess
	}
	ofPod := of(cmp.Or(pod.SecurityContext, &corev1.PodSecurityContext{}).WindowsOptions)
	add := func(list string, i int, c *corev1.SecurityContext) {
		h.containers++
		own := of(cmp.Or(c, &corev1.SecurityContext{}).WindowsOptions)
		if *cmp.Or(own, ofPod, new(false)) {
			h.host++
		}
		if own != nil && ofPod != nil && *own != *ofPod {
			h.contradict = append(h.contradict, Finding{Error, fmt.Sprintf("%s[%d].%s", list, i, hostProcessField),
				fmt.Sprintf("The API server rejects a container for which it is %t, and %t for the pod.", *own, *ofPod), setForPod})
		}
	}
	for i, c := range pod.InitContainers {
		add("initContainers", i, c.SecurityContext)
	}
	for i, c := range pod.Containers {
		add("containers", i, c.SecurityContext)
	}
	for i, c := range pod.EphemeralContainers {
		add("ephemeralContainers", i, c.SecurityContext)
	}
	return h
}

func (h hostProcess) findings(pod *corev1.PodSpec) []Finding {
	found := h.contradict
	if h.host > 0 && !h.all() {
		found = append(found, Finding{Error, hostProcessField, "The API server rejects a pod in which only some containers are HostProcess containers.", setForPod})
	}
	if h.host > 0 && !pod.HostNetwork {
		found = append(found, Finding{Error, "hostNetwork", "The API server rejects HostProcess containers without the host's network.", "Set hostNetwork: true."})
	}
	return found
}

// incompatibleReleases returns the pairs of generations that no node can run both of.
func incompatibleReleases() (pairs [][2]windowsbuild.Release) {
	all := windowsbuild.Releases()
	for i, a := range all {
		for _, b := range all[i+1:] {
			runsBoth := func(host windowsbuild.Release) bool {
				return windowsbuild.Runs(host.Build, a.Build) && windowsbuild.Runs(host.Build, b.Build)
			}
			if !slices.ContainsFunc(all, runsBoth) {
				pairs = append(pairs, [2]windowsbuild.Release{a, b})
			}
		}
	}
	return pairs
}

// images reports images that, by their tags, no node can run together.
func images(pod *corev1.PodSpec) []Finding {
	of := map[string]string{} // one image of each generation
	for i, c := range pod.Containers {
		for _, r := range windowsbuild.Releases() {
			if isOf(c.Image, r.Tag) {
				of[r.Tag] = c.Image
			}
		}
		for _, pair := range incompatibleReleases() {
			if of[pair[0].Tag] != "" && of[pair[1].Tag] != "" {
				return []Finding{{Error, fmt.Sprintf("containers[%d].image", i), fmt.Sprintf("Image %s is for %s, and %s for %s: no node runs both.",
					of[pair[0].Tag], pair[0].Name, of[pair[1].Tag], pair[1].Name), "Use images for the same build of Windows."}}
			}
		}
	}
	return nil
}

// Source of the root check: pkg/kubelet/kuberuntime/security_context_windows.go.
const (
	containerAdministrator = "ContainerAdministrator"
	whyAdministrator       = "With runAsNonRoot, the kubelet does not start containers that run as ContainerAdministrator."
	useUserOrRoot          = "Use another user, such as ContainerUser, or remove runAsNonRoot."
)

// administrator reports containers that run as the user that runAsNonRoot excludes.
func administrator(pod *corev1.PodSpec) (found []Finding) {
	of := cmp.Or(pod.SecurityContext, &corev1.PodSecurityContext{})
	check := func(at string, c *corev1.SecurityContext) {
		c = cmp.Or(c, &corev1.SecurityContext{})
		user := func(o *corev1.WindowsSecurityContextOptions) *string {
			return cmp.Or(o, &corev1.WindowsSecurityContextOptions{}).RunAsUserName
		}
		nonRoot, name := cmp.Or(c.RunAsNonRoot, of.RunAsNonRoot, new(false)), cmp.Or(user(c.WindowsOptions), user(of.WindowsOptions), new(""))
		if *nonRoot && strings.EqualFold(*name, containerAdministrator) {
			found = append(found, Finding{Error, at + ".securityContext.windowsOptions.runAsUserName", whyAdministrator, useUserOrRoot})
		}
	}
	for i, c := range pod.InitContainers {
		check(fmt.Sprintf("initContainers[%d]", i), c.SecurityContext)
	}
	for i, c := range pod.Containers {
		check(fmt.Sprintf("containers[%d]", i), c.SecurityContext)
	}
	for i, c := range pod.EphemeralContainers {
		check(fmt.Sprintf("ephemeralContainers[%d]", i), c.SecurityContext)
	}
	return found
}

func memory(pod *corev1.PodSpec) (found []Finding) {
	for i, c := range pod.Containers {
		if _, limited := c.Resources.Limits[corev1.ResourceMemory]; !limited {
			found = append(found, Finding{Warning, fmt.Sprintf("containers[%d].resources.limits.memory", i),
				"Windows has no OOM killer: without a limit, one container can stop the whole node.", "Set a limit."})
		}
	}
	return found
}
