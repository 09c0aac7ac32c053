package controllers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// aHostKey is the n-th one, as spec.hostKey has it.
func aHostKey(t *testing.T, n byte) string {
	t.Helper()
	key, err := ssh.ParsePrivateKey(storyKey(t, n))
	if err != nil {
		t.Fatal(err)
	}
	return remote.FormatHostKey(key.PublicKey())
}

func knownHostsMap(lines ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.KnownHostsConfigMap, UID: "its-uid"},
		Data:       map[string]string{api.KnownHostsKey: strings.Join(lines, "\n")},
	}
}

// hostKeys are spec.hostKey of the instances, by name.
func (w *sources) hostKeys() map[string]string {
	keys := map[string]string{}
	for _, i := range w.instances() {
		keys[i.Name] = i.Spec.HostKey
	}
	return keys
}

func TestEntriesHaveTheHostKeysThatAreKnownInAdvance(t *testing.T) {
	first, second, written := aHostKey(t, 1), aHostKey(t, 2), aHostKey(t, 3)
	known := knownHostsMap("10.0.0.1 "+first, "HOST.example "+second)
	users := userMap("10.0.0.1", "10.0.0.2", "host.example.")
	other := anInstance("10.0.0.2", "ConfigMap", "", "10.0.0.2")
	other.Spec.HostKey = written + " by its user"
	w := newSources(t, users, known, other)
	w.names["host.example."], w.names["host.example"] = nil, []string{"10.0.0.3"}
	expect := func(want map[string]string) {
		t.Helper()
		w.writes = 0
		w.pass()
		for name, key := range w.hostKeys() {
			if key != want[name] {
				t.Errorf("%s has to show %q, want %q", name, key, want[name])
			}
		}
		if w.writes = 0; len(w.instances()) != len(want) {
			t.Errorf("there are %d instances, want %d", len(w.instances()), len(want))
		}
		if w.pass(); w.writes != 0 {
			t.Errorf("%d writes, although nothing has changed", w.writes)
		}
	}
	expect(map[string]string{"10.0.0.1": first, "10.0.0.2": other.Spec.HostKey, "host.example": second})
	known.Data[api.KnownHostsKey] = "10.0.0.1 " + second + "\n10.0.0.2 " + written
	w.must(w.Update(t.Context(), known))
	expect(map[string]string{"10.0.0.1": second, "10.0.0.2": other.Spec.HostKey, "host.example": second})
}

// Somebody wrote a host's key down, and it cannot be read: that is no reason to believe whoever answers.
func TestAnEntryWhoseHostKeyCannotBeReadIsNotBelieved(t *testing.T) {
	unreadable := knownHostsMap()
	unreadable.Data, unreadable.BinaryData = nil, map[string][]byte{api.KnownHostsKey: {0xff, 0xfe}}
	wrongKey := knownHostsMap()
	wrongKey.Data = map[string]string{"hosts": ""}
	for name, test := range map[string]struct {
		known *corev1.ConfigMap
		want  []string // besides the one that is there already
		says  string
	}{
		"a damaged line": {knownHostsMap("10.0.0.1 ssh-ed25519 AAAA", "10.0.0.9 ssh-ed25519 AAAA"), []string{"10.0.0.2 ConfigMap 10.0.0.2"}, "line 1"},
		"UTF-16":         {unreadable, nil, "UTF-8"},
		"no such key":    {wrongKey, nil, api.KnownHostsKey},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSources(t, userMap("10.0.0.1", "10.0.0.2", "10.0.0.9"), test.known, anInstance("10.0.0.9", "ConfigMap", "", "10.0.0.9"))
			w.pass()
			w.expect(append(test.want, "10.0.0.9 ConfigMap 10.0.0.9")...)
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, api.KnownHostsConfigMap, test.says)
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, api.InstancesConfigMap, `"10.0.0.1"`)
		})
	}
}

// trust changes spec.trust of WindowsConfig.
func (s *story) trust(t v1alpha1.Trust) {
	var config v1alpha1.WindowsConfig
	s.must(s.client.Get(s.ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config))
	config.Spec.Trust = t
	s.must(s.client.Update(s.ctx, &config))
}

// Where keys must be known in advance, whoever answers first at a host's address gets nothing.
func TestAStrangerGetsNothingWhereKeysMustBeKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 2, v1alpha1.RolloutSpec{})
		s.announce(s.hosts[1])
		s.until("a host has joined that was believed at first contact", time.Hour, func() bool { return s.ready() == 1 })
		s.trust(v1alpha1.TrustPinned)
		stranger := s.hosts[0]
		s.announce(stranger)
		s.pass(5 * time.Minute)
		i := s.instance("win-1")
		ready := conditionOf(i, api.ConditionReady)
		for _, part := range []string{ssh.FingerprintSHA256(stranger.key), remote.FormatHostKey(stranger.key), "spec.hostKey"} {
			if ready.Reason != api.ReasonHostKeyUnknown || !strings.Contains(ready.Message, part) {
				t.Errorf("Ready is %+v, want HostKeyUnknown that says %q", ready, part)
			}
		}
		if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionStalled) || i.Status.HostKey != "" || stranger.token != "" || stranger.joins > 0 {
			t.Errorf("the stranger is believed: status.hostKey %q, token %q, %d joins", i.Status.HostKey, stranger.token, stranger.joins)
		}
		if s.ready() != 1 {
			t.Error("the host that had joined before is no node any more")
		}
		i.Spec.HostKey = remote.FormatHostKey(stranger.key)
		i.Generation++
		s.must(s.client.Update(s.ctx, i))
		s.until("the host has joined that somebody vouched for", time.Hour, func() bool { return s.ready() == 2 })
	})
}

// Copies of an image have the same host key: nobody can tell them apart by it, and whoever looks after them is told.
func TestHostsThatShowTheSameKeyAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 3, v1alpha1.RolloutSpec{})
		s.hosts[1].key = s.hosts[0].key
		s.announce(s.hosts[0])
		s.until("the first is a node", time.Hour, func() bool { return s.ready() == 1 })
		s.announce(s.hosts[1:]...)
		s.until("all are nodes", time.Hour, func() bool { return s.ready() == 3 })
		told := strings.Join(s.lines, "\n")
		if !strings.Contains(told, "win-2: HostKeyShared: the host shows the same SSH host key "+ssh.FingerprintSHA256(s.hosts[0].key)+" as that of WindowsInstance win-1") {
			t.Errorf("nobody was told:\n%s", told)
		}
		if strings.Contains(told, "win-3: HostKeyShared") {
			t.Errorf("a host with a key of its own was taken for another:\n%s", told)
		}
	})
}
