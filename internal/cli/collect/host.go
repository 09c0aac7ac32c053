package collect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// Pauses, deadline and retries for one host.
const (
	pollInterval = 300 * time.Millisecond
	cleanUp      = 10 * time.Second
	retries      = 3
)

// host collects from one host. If that fails, it collects the ends of logs.
func (c *collector) host(ctx context.Context, h fleetstatus.Host) hostReport {
	report := hostReport{Name: h.Name, Node: h.Node}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.fromWICD(ctx, h, &report)
	if err == nil {
		return report
	}
	report.Error = err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		report.Error = fmt.Sprintf("no archive within %s", c.timeout)
	}
	if code := session.CodeOf(err); code != session.CodeForbidden && code != session.CodeUnreachable {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		report.Logs = c.tails(short, h, &report)
	}
	return report
}

// fromWICD requests an archive, waits for it, downloads it, and withdraws the request.
func (c *collector) fromWICD(ctx context.Context, h fleetstatus.Host, report *hostReport) error {
	key := types.NamespacedName{Namespace: c.namespace, Name: h.Name}
	defer func() { // even if the response to the request was lost
		later, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if err := c.withdrawRequest(later, key); err != nil {
			c.printProgress("warning: %s: removing annotation %s: %v", h.Name, api.AnnotationCollect, err)
		}
	}()
	if err := c.requestArchive(ctx, key, h.Node); err != nil {
		return err
	}
	c.printProgress("%s: collecting", h.Name)
	status, err := c.await(ctx, h.Node)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "kubectl-windows-") // only the user can read it
	if err != nil {
		return err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	if err := c.download(ctx, h.Node, status, f); err != nil {
		return err
	}
	files, err := c.archive.merge("hosts/"+h.Name+"/", f, status.Bytes)
	if err != nil {
		return err
	}
	report.Bytes, report.Files = status.Bytes, files
	return nil
}

// requestArchive sets the annotation, unless another user is collecting from the host.
func (c *collector) requestArchive(ctx context.Context, key types.NamespacedName, node string) error {
	var i v1alpha1.WindowsInstance
	if err := c.kube.Get(ctx, key, &i); err != nil {
		return session.Explain(err, "reading windowsinstance "+key.Name)
	}
	if other := i.Annotations[api.AnnotationCollect]; other != "" && !c.force {
		var n corev1.Node
		if err := c.kube.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
			return session.Explain(err, "reading node "+node)
		}
		if s, err := supportbundle.ParseStatus(n.Annotations[api.AnnotationCollected]); err != nil || s.ID != other || s.State == supportbundle.Collecting ||
			s.State == supportbundle.Done && time.Since(s.Time) < 10*time.Minute {
			return session.Failf(session.CodeFailed, "another collection is in progress (%s): wait, or use --force", other)
		}
	}
	before := i.DeepCopy()
	if i.Annotations == nil {
		i.Annotations = map[string]string{}
	}
	i.Annotations[api.AnnotationCollect] = c.id
	err := c.kube.Patch(ctx, &i, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) { // the operator wrote its status, or another user was faster
		return c.requestArchive(ctx, key, node)
	}
	return session.Explain(err, "annotating windowsinstance "+key.Name)
}

// withdrawRequest removes the annotation if it still has this run's ID. WICD then removes the archive.
func (c *collector) withdrawRequest(ctx context.Context, key types.NamespacedName) error {
	for {
		var i v1alpha1.WindowsInstance
		if err := c.kube.Get(ctx, key, &i); err != nil {
			return client.IgnoreNotFound(err)
		}
		if i.Annotations[api.AnnotationCollect] != c.id {
			return nil // another user is collecting now
		}
		before := i.DeepCopy()
		delete(i.Annotations, api.AnnotationCollect)
		err := c.kube.Patch(ctx, &i, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
}

func (c *collector) await(ctx context.Context, node string) (supportbundle.Status, error) {
	for {
		var n corev1.Node
		err := c.kube.Get(ctx, types.NamespacedName{Name: node}, &n)
		switch {
		case apierrors.IsNotFound(err):
			return supportbundle.Status{}, session.Failf(session.CodeNotFound, "node %s was deleted", node)
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return supportbundle.Status{}, session.Explain(err, "reading node "+node)
		}
		s, bad := supportbundle.ParseStatus(n.Annotations[api.AnnotationCollected])
		if err == nil && bad == nil && s.ID == c.id {
			switch s.State {
			case supportbundle.Done:
				return s, nil
			case supportbundle.Failed, supportbundle.Expired:
				return s, session.Failf(session.CodeFailed, "the host could not write an archive: %s", s.Message)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
			continue
		}
		switch {
		case !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return s, session.Failf(session.CodeFailed, "interrupted")
		case s.State == supportbundle.Collecting:
			return s, session.Failf(session.CodeTimeout, "the host did not finish its archive within %s", c.timeout)
		}
		return s, session.Failf(session.CodeTimeout,
			"WICD did not respond within %s: node %s is not connected, its version does not support collections, or the operator is not running", c.timeout, node)
	}
}

// download reads the archive, resumes where it was interrupted, and verifies its hash.
func (c *collector) download(ctx context.Context, node string, s supportbundle.Status, file io.Writer) error {
	if s.Bytes > maxArchive {
		return session.Failf(session.CodeFailed, "the archive has %s; at most %s are allowed", bytes(s.Bytes), bytes(maxArchive))
	}
	hash := sha256.New()
	to := io.MultiWriter(file, hash)
	var have int64
	var err error
	for range retries {
		var n int64
		n, err = c.downloadFrom(ctx, node, s, have, to)
		have += n
		if err == nil && have == s.Bytes || ctx.Err() != nil || session.CodeOf(err) == session.CodeForbidden {
			break
		}
	}
	switch {
	case err != nil:
		return err
	case have != s.Bytes || s.SHA256 != hex.EncodeToString(hash.Sum(nil)):
		return session.Failf(session.CodeFailed, "the downloaded archive is not the one that WICD reported: %d of %d bytes", have, s.Bytes)
	}
	return nil
}

func (c *collector) downloadFrom(ctx context.Context, node string, s supportbundle.Status, from int64, to io.Writer) (int64, error) {
	part, err := c.client.From(ctx, node, supportbundle.Path(s.ID), from)
	if errors.Is(err, nodefiles.ErrNoMore) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer part.Body.Close()
	if part.From != from {
		return 0, session.Failf(session.CodeFailed, "the kubelet does not support range requests")
	}
	n, err := io.Copy(to, io.LimitReader(part.Body, s.Bytes-from))
	return n, session.Explain(err, "downloading the archive from node "+node)
}

// logTail is how many bytes of a log are collected without WICD.
const logTail = 1 << 20

// tails collects the ends of logs without WICD. It reports whether it found any.
func (c *collector) tails(ctx context.Context, h fleetstatus.Host, report *hostReport) (taken bool) {
	for _, file := range []string{
		"wicd/wicd.log", "wicd/update.log", "kubelet/kubelet.log", "containerd/containerd.log", "kube-proxy/kube-proxy.log", "hybrid-overlay/hybrid-overlay.log",
		"flanneld/flanneld.log", "eventlog/System.log", "eventlog/Application.log",
	} {
		part, err := c.client.Tail(ctx, h.Node, file, logTail)
		if errors.Is(err, nodefiles.ErrAbsent) {
			continue
		}
		if err != nil {
			return taken
		}
		text, err := io.ReadAll(io.LimitReader(part.Body, logTail))
		_ = part.Body.Close()
		if err != nil || c.archive.add("hosts/"+h.Name+"/logs/"+file, []byte(c.masker.Text(string(text)))) != nil {
			return taken
		}
		taken = true
		report.Files++
	}
	return taken
}
