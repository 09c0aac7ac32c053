//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// replaceKey replaces the SSH key pair.
func (p harness) replaceKey(watch *budgetWatch) {
	old, err := ssh.ParsePrivateKey(p.Key)
	must(p.t, err)
	private, text, err := sshserver.NewKey()
	must(p.t, err)
	cordons, before := watch.cordons(), p.unchangedState()
	var secret corev1.Secret
	p.get(operatorObject(api.PrivateKeySecret), &secret)
	secret.Data[api.PrivateKeyKey] = text
	must(p.t, p.Client.Update(p.t.Context(), &secret))
	began := time.Now()
	want := sha256.Sum256(bytes.TrimSpace(ssh.MarshalAuthorizedKey(private.PublicKey())))
	p.eventually("all nodes report that they accept the new key", func(context.Context) string {
		for _, h := range p.Hosts() {
			if got := p.node(h.Name).Annotations[api.AnnotationPubKeyHash]; got != hex.EncodeToString(want[:]) {
				return h.Name + " reports " + got
			}
		}
		return ""
	})
	p.eventually("no host accepts the old key", func(context.Context) string {
		for _, h := range p.Hosts() {
			if err := logIn(h.Address, old); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
				return fmt.Sprintf("%s: got error %v, want the key to be rejected", h.Name, err)
			}
		}
		return ""
	})
	p.t.Logf("all nodes had the new key after %s", time.Since(began).Round(100*time.Millisecond))
	for _, h := range p.Hosts() {
		if err := logIn(h.Address, private); err != nil {
			p.t.Errorf("%s rejects the new key: %v", h.Name, err)
		}
	}
	if n := watch.cordons() - cordons; n != 0 {
		p.t.Errorf("%d nodes were cordoned for the new key, want none", n)
	}
	for what, got := range p.unchangedState() {
		if previous := before[what]; got != previous {
			p.t.Errorf("%s: got %s, want %s as before", what, got, previous)
		}
	}
}

// unchangedState returns the state that another key must not change: nodes, their boots, and the processes of services.
func (p harness) unchangedState() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, host := range p.Lab.Hosts() {
		node := p.node(host.Name())
		all["node "+node.Name] = fmt.Sprint(node.UID, node.Status.NodeInfo.BootID, node.Annotations[api.AnnotationVersion])
		for name, s := range p.servicesOf(host) {
			if name != api.WICDUpdateService { // removed a minute after an update
				all["service "+name+" of "+node.Name] = fmt.Sprint(s.State, s.PID, s.Command)
			}
		}
	}
	return all
}

// logIn logs in with a key.
func logIn(address string, key ssh.Signer) error {
	c, err := ssh.Dial("tcp", net.JoinHostPort(address, "22"), &ssh.ClientConfig{
		User: testenv.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 10 * time.Second,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // only the host's decision matters here
	})
	if err != nil {
		return err
	}
	return c.Close()
}
