package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/join"
)

// proveKey proves the present SSH key to a node where nothing else is to be done.
func (c *Controller) proveKey(ctx context.Context, p *pass) (outcome, error) {
	if d := p.decision; d.Action == join.None && d.Err == nil && p.Instance.DeletionTimestamp == nil {
		p.decision.After = c.loginWithNewKey(ctx, p.view, p.status)
	}
	return proceed, nil
}

// loginWithNewKey logs in to a node that was last logged in to with another key. It returns when to try again; zero when the key
// is proven, or was before.
func (c *Controller) loginWithNewKey(ctx context.Context, v *view, st *status) time.Duration {
	if v.Node == nil || v.key == nil {
		return 0
	}
	proven := v.Node.Annotations[api.AnnotationPubKeyHash]
	if proven == "" || proven == sshkey.Hash(v.key) {
		return 0
	}
	id := client.ObjectKeyFromObject(v.Instance)
	if left := c.retries.Remaining(id); left > 0 {
		return left
	}
	host, err := c.dial(ctx, v.Instance, v.key, v.config.Trust)
	if err == nil {
		_ = host.Close() // it has let us in, which is all
		c.retries.Reset(id)
		v.keyProven = true
		join.Reached(st.desired(), v.Instance.Generation, nil)
		return 0
	}
	var u *join.Unreachable
	if errors.As(err, &u) && u.Reason == api.ReasonAuthenticationFailed {
		join.Reached(st.desired(), v.Instance.Generation, &join.Unreachable{Reason: u.Reason, Err: fmt.Errorf(
			"the host does not let in the key of Secret %s yet; WICD authorizes it when it can reach the cluster, or add this line to "+
				`C:\ProgramData\ssh\administrators_authorized_keys on the host: %s`,
			api.PrivateKeySecret, sshkey.AuthorizedLine(v.key))})
	}
	return c.retries.Fail(id, time.Now())
}
