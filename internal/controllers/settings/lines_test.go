package settings

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/release"
)

func TestALineOfKubernetesThatNobodyFixesIsTold(t *testing.T) {
	had := metav1.Condition{Type: api.ConditionKubernetesUnsupported, Status: metav1.ConditionTrue, Reason: api.ReasonEndOfSupport, Message: "before"}
	for name, test := range map[string]struct {
		kubelet   string
		openShift bool
		day       string
		want      string // part of the message; empty for no condition
	}{
		"the last day":               {"v1.33.13", false, "2026-06-28", ""},
		"the day after":              {"v1.33.13", false, "2026-06-29", "Kubernetes 1.33 has had no fixes since 2026-06-28 (https://kubernetes.io/releases/1.33/); nodes have kubelet v1.33.13"},
		"on OpenShift":               {"v1.33.13", true, "2026-11-26", ""},
		"a line with fixes":          {"v1.37.2", false, "2026-11-26", ""},
		"a line that nobody knows":   {"v1.99.0", false, "2036-11-26", ""},
		"a payload without kubelets": {"", false, "2026-11-26", "before"},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.DateOnly, test.day)
			if err != nil {
				t.Fatal(err)
			}
			conditions := []metav1.Condition{had}
			setEndOfSupport(&conditions, release.Release{Kubelet: test.kubelet}, test.openShift, now, 7)
			got := meta.FindStatusCondition(conditions, api.ConditionKubernetesUnsupported)
			if (got != nil) != (test.want != "") || got != nil && (!strings.Contains(got.Message, test.want) || got.Status != metav1.ConditionTrue) {
				t.Errorf("condition %+v, want %q", got, test.want)
			}
		})
	}
}
