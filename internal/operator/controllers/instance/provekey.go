package instance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// proveKey logs in to a node with the current SSH key, if nothing else has to be done.
func (c *Controller) proveKey(ctx context.Context, p *pass) (outcome, error) {
	if d := p.decision; d.Action == join.None && d.Err == nil && p.Instance.DeletionTimestamp == nil {
		p.decision.After = c.loginWithNewKey(ctx, p.view, p.status)
	}
	return proceed, nil
}

// provenKeys records which key each host has accepted. A Node, which may be missing or created again, must not be annotated with a key that was not
// tried, because WICD removes the others.
type provenKeys struct {
	mu     sync.Mutex
	hashes map[types.NamespacedName]string
}

func (k *provenKeys) has(id types.NamespacedName, hash string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hashes[id] == hash
}

func (k *provenKeys) add(id types.NamespacedName, hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hashes == nil {
		k.hashes = map[types.NamespacedName]string{}
	}
	k.hashes[id] = hash
}

func (k *provenKeys) forget(id types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.hashes, id)
}

// loginWithNewKey logs in to a node whose last login used another or an unknown key. It returns when to retry; zero if the key is, or already was,
// proven.
func (c *Controller) loginWithNewKey(ctx context.Context, v *view, st *statusWriter) time.Duration {
	if v.Node == nil || v.key == nil || v.keyProven || v.Node.Annotations[api.AnnotationPubKeyHash] == sshkey.Hash(v.key) {
		return 0
	}
	id := client.ObjectKeyFromObject(v.Instance)
	if left := c.retries.Remaining(id); left > 0 {
		return left
	}
	host, err := c.dial(ctx, v.Instance, v.key, v.config.Trust)
	if err == nil {
		_ = host.Close() // a successful login is enough
		c.retries.Reset(id)
		c.proven.add(id, sshkey.Hash(v.key))
		v.keyProven = true
		join.Reached(st.want(), v.Instance.Generation, nil)
		return 0
	}
	var u *join.Unreachable
	if errors.As(err, &u) && u.Reason == api.ReasonAuthenticationFailed {
		join.Reached(st.want(), v.Instance.Generation, &join.Unreachable{Reason: u.Reason, Err: fmt.Errorf(
			"the host does not accept the key of Secret %s yet; WICD authorizes it once it can reach the cluster, or add this line to "+
				`C:\ProgramData\ssh\administrators_authorized_keys on the host: %s`,
			api.PrivateKeySecret, sshkey.AuthorizedLine(v.key))})
	}
	return c.retries.Fail(id, time.Now())
}
