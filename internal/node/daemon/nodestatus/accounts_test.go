package nodestatus_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// afterAccountsCheck is longer than WICD's interval between checks of the support for group Managed Service Accounts.
const afterAccountsCheck = 10*time.Minute + time.Second

func TestGMSASupportIsReportedOnNode(t *testing.T) {
	plugin := map[string]bool{"{ccc2a336-d7f3-4818-a213-272b7924213e}": true, "{00000000-0000-4000-8000-000000000001}": false}
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		for _, step := range []struct {
			is      sim.Accounts
			status  corev1.ConditionStatus
			reason  string
			message string
		}{
			{sim.Accounts{}, "", "", ""},
			{sim.Accounts{Plugins: plugin}, corev1.ConditionTrue, api.ReasonCredentialPlugin, "registered: {CCC2A336-D7F3-4818-A213-272B7924213E}"},
			{sim.Accounts{Domain: "CONTOSO", Plugins: plugin}, corev1.ConditionTrue, api.ReasonDomainJoined, `domain "CONTOSO"; plugins`},
			{sim.Accounts{Domain: "A\x1b[31m\n" + strings.Repeat("x", 1<<16)}, corev1.ConditionTrue, api.ReasonDomainJoined, `\x1b[31m\n`},
			{sim.Accounts{Fails: errors.New("not now")}, corev1.ConditionTrue, api.ReasonDomainJoined, `\x1b[31m\n`},
			{sim.Accounts{}, corev1.ConditionFalse, api.ReasonNotInDomain, "no plugin"},
		} {
			m.Windows.EditAccounts(func(a *sim.Accounts) { *a = step.is })
			time.Sleep(afterAccountsCheck)
			c := m.Condition(api.ConditionGMSACapable)
			if c.Status != step.status || c.Reason != step.reason || !strings.Contains(c.Message, step.message) || len(c.Message) > 1024 {
				t.Errorf("with %.100q, the condition is %+v; want %s, %s, %q", step.is.Domain, c, step.status, step.reason, step.message)
			}
		}
		patches := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status")
		m.Stop()
		m.Start(t)
		time.Sleep(time.Hour)
		if n := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status") - patches; n > 60/5+1 { // those of the kubelet
			t.Errorf("the status was patched %d times although nothing changed", n)
		}
	})
}
