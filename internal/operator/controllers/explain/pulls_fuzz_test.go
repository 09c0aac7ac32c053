package explain

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
)

// FuzzMessagesOfKubelets: for any pull message of a kubelet, the cause is a known one or none, and its text is bounded, printable and free of the
// password in an address.
func FuzzMessagesOfKubelets(f *testing.F) {
	const password = "hunter2hunter2"
	f.Add("ErrImagePull", `failed to do request: Head "`, `": x509: certificate signed by unknown authority`, uint16(0))
	f.Add("ErrImagePull", `failed to do request: Head "`, `": proxyconnect tcp: dial tcp 10.0.0.1:3128: i/o timeout`, uint16(200))
	f.Add("ImagePullBackOff", "Back-off pulling image: ErrImagePull: ", ": 401 Unauthorized \x1b[31m", uint16(4000))
	f.Add("RegistryUnavailable", "because the registry is unavailable ", ": not found", uint16(9000))
	f.Fuzz(func(t *testing.T, reason, before, after string, filler uint16) {
		if strings.Contains(before+after, "hunter2") {
			t.Skip()
		}
		message := before + strings.Repeat("x", int(filler)) + " https://user:" + password + "@r.test/v2/ " + strings.Repeat("y ", int(filler)/2) + after
		pod := refused("web", "r.test/web:1")
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		kept, err := Pending().Transform(pod)
		if err != nil {
			t.Fatal(err)
		}
		waiting := kept.(*corev1.Pod).Status.ContainerStatuses[0].State.Waiting
		if len(waiting.Message) > 4096 {
			t.Errorf("%d bytes of the message are kept", len(waiting.Message))
		}
		node := corev1.Node{}
		node.Name = "win-1"
		c := podcause.Of(kept.(*corev1.Pod), podcause.Cluster{Nodes: []corev1.Node{node}})
		if c.Reason != "" && !slices.Contains(api.PodReasons(), c.Reason) {
			t.Errorf("the cause is %q", c.Reason)
		}
		isUnsafe := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if len(c.Message) > 700 || strings.ContainsFunc(c.Message, isUnsafe) {
			t.Errorf("the message has %d bytes: %q", len(c.Message), c.Message)
		}
		for _, text := range []string{waiting.Message, c.Message} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("the message contains the password: %q", text)
			}
		}
	})
}
