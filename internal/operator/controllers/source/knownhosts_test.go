package source

import (
	"maps"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

// aHostKey returns the n-th host key, in the format of spec.hostKey.
func aHostKey(t *testing.T, n byte) string {
	t.Helper()
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(t, n))
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

// hostKeys returns spec.hostKey of the instances, by name.
func (w *sources) hostKeys() map[string]string {
	keys := map[string]string{}
	for _, i := range w.instances() {
		keys[i.Name] = i.Spec.HostKey
	}
	return keys
}

func TestEntriesGetKnownHostKeys(t *testing.T) {
	first, second, written := aHostKey(t, 1), aHostKey(t, 2), aHostKey(t, 3)
	known := knownHostsMap("10.0.0.1 "+first, "HOST.example "+second)
	users := userMap("10.0.0.1", "10.0.0.2", "host.example.")
	other := controllertest.Instance("10.0.0.2", "ConfigMap", "", "10.0.0.2")
	other.Spec.HostKey = written + " by its user"
	w := newSources(t, users, known, other)
	w.names["host.example"] = []string{"10.0.0.3"}
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
			t.Errorf("got %d instances, want %d", len(w.instances()), len(want))
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

// A listed host key that cannot be read is no reason to trust whatever machine answers.
func TestEntryWithUnreadableHostKeyIsRejected(t *testing.T) {
	unreadable := knownHostsMap()
	unreadable.Data, unreadable.BinaryData = nil, map[string][]byte{api.KnownHostsKey: {0xff, 0xfe}}
	wrongKey := knownHostsMap()
	wrongKey.Data = map[string]string{"hosts": ""}
	for name, test := range map[string]struct {
		known   *corev1.ConfigMap
		want    []string // in addition to the existing one
		message string
	}{
		"a damaged line": {knownHostsMap("10.0.0.1 ssh-ed25519 AAAA", "10.0.0.9 ssh-ed25519 AAAA"), []string{"10.0.0.2 ConfigMap 10.0.0.2"}, "line 1"},
		"unrelated line": {knownHostsMap("|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= x", "10.0.0.2 "+aHostKey(t, 1)), []string{"10.0.0.2 ConfigMap 10.0.0.2"}, "line 1"},
		"another port":   {knownHostsMap("[10.0.0.1]:2222 " + aHostKey(t, 1) + "\nx"), nil, "line 2"},
		"UTF-16":         {unreadable, nil, "UTF-8"},
		"no such key":    {wrongKey, nil, api.KnownHostsKey},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSources(t, userMap("10.0.0.1", "10.0.0.2", "10.0.0.9"), test.known, controllertest.Instance("10.0.0.9", "ConfigMap", "", "10.0.0.9"))
			w.pass()
			w.expect(append(test.want, "10.0.0.9 ConfigMap 10.0.0.9")...)
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, api.KnownHostsConfigMap, test.message)
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, api.InstancesConfigMap, `"10.0.0.1"`)
		})
	}
}

// Keys are found as OpenSSH finds them: by hashed names, by patterns, and by the address to which a name resolves.
func TestEntryGetsKeyOfAnyMatchingLine(t *testing.T) {
	key := aHostKey(t, 1)
	users := userMap("host.example", "win-2.example", "10.0.1.7", "10.0.0.3", "plain.example", "wrong.example")
	w := newSources(t, users, knownHostsMap(
		"|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|j8K0mGXGsuI98vmEExhOGtVk4Rc= "+key, // for no entry
		"win-?.example "+key, "10.0.1.*,!10.0.1.8 "+key, "10.0.0.4 "+key, "10.0.0.5 ssh-ed25519 AAAA"))
	w.names["win-2.example"], w.names["plain.example"], w.names["wrong.example"] = []string{"10.0.0.2"}, []string{"10.0.0.4"}, []string{"10.0.0.5"}
	w.pass()
	want := map[string]string{"host.example": "", "win-2.example": key, "10.0.1.7": key, "10.0.0.3": "", "plain.example": key}
	if got := w.hostKeys(); !maps.Equal(got, want) {
		t.Errorf("host keys are %v, want %v", got, want)
	}
	w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `entry "wrong.example"`, "line 5")
}
