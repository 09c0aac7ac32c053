package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// loginWithNewKey logs in to a node whose last login used another or an unknown key. It returns when to retry; zero if the key is, or already was,
// proven.
func (c *Controller) loginWithNewKey(ctx context.Context, v *view, st *statusWriter) time.Duration {
	if v.Node == nil || v.key == nil || v.keyProven || v.Node.Annotations[api.AnnotationPubKeyHash] == sshkey.Hash(v.key) {
		return 0
	}
	id := client.ObjectKeyFromObject(v.Instance)
	if remaining := c.retries.Remaining(id); remaining > 0 {
		return remaining
	}
	host, err := c.dial(ctx, v.Instance, v.key, v.config.Trust)
	if err == nil {
		_ = host.Close() // a successful login is enough
		c.retries.Reset(id)
		c.proven.Store(id, sshkey.Hash(v.key))
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
