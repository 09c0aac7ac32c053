package storytest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

// Copies of an image have the same host key. An event reports hosts that cannot be distinguished by it.
func TestSharedHostKeysAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 3, v1alpha1.RolloutSpec{})
		s.hosts[1].key = s.hosts[0].key
		s.announce(s.hosts[0])
		s.until("the first is a node", time.Hour, func() bool { return s.ready() == 1 })
		s.announce(s.hosts[1:]...)
		s.until("all are nodes", time.Hour, func() bool { return s.ready() == 3 })
		reported := strings.Join(s.lines, "\n")
		if !strings.Contains(reported, "win-2: HostKeyShared: the host has the same SSH host key "+ssh.FingerprintSHA256(s.hosts[0].key)+" as WindowsInstance win-1") {
			t.Errorf("no event was emitted:\n%s", reported)
		}
		if strings.Contains(reported, "win-3: HostKeyShared") {
			t.Errorf("a host with a key of its own was taken for another:\n%s", reported)
		}
	})
}

// If keys must be known in advance, an unknown host that answers at a host's address gets nothing.
func TestUnknownHostGetsNothingIfTrustIsPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 2, v1alpha1.RolloutSpec{})
		s.announce(s.hosts[1])
		s.until("the host trusted on first use has joined", time.Hour, func() bool { return s.ready() == 1 })
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Trust = v1alpha1.TrustPinned })
		stranger := s.hosts[0]
		s.announce(stranger)
		s.pass(5 * time.Minute)
		i := s.instance("win-1")
		ready := kube.Condition(i, api.ConditionReady)
		for _, part := range []string{ssh.FingerprintSHA256(stranger.key), remote.FormatHostKey(stranger.key), "spec.hostKey"} {
			if ready.Reason != api.ReasonHostKeyUnknown || !strings.Contains(ready.Message, part) {
				t.Errorf("Ready is %+v, want HostKeyUnknown containing %q", ready, part)
			}
		}
		if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionStalled) || i.Status.HostKey != "" || stranger.token != "" || stranger.joins > 0 {
			t.Errorf("the stranger is believed: status.hostKey %q, token %q, %d joins", i.Status.HostKey, stranger.token, stranger.joins)
		}
		if s.ready() != 1 {
			t.Error("the joined host is no longer a node")
		}
		s.edit("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.HostKey = remote.FormatHostKey(stranger.key) })
		s.until("the host with a known key has joined", time.Hour, func() bool { return s.ready() == 2 })
	})
}
