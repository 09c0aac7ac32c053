package overlay

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// longestPause is the longest pause between attempts, without its random extra.
const longestPause = 15 * time.Second

// newRetry returns pauses between attempts.
func newRetry() *backoff.Backoff { return backoff.Between(time.Second, longestPause) }

// maxAnswered limits what a problem quotes from an answer of the API server.
const maxAnswered = 500

// publishRouterMAC annotates the Node with the address of this host's router whenever the annotation differs.
func publishRouterMAC(ctx context.Context, s *state, c *kubeapi.Client, report *reporter, log *slog.Logger) {
	retry := newRetry()
	for ctx.Err() == nil {
		mac, differs := s.unpublishedMAC()
		if !differs {
			report.setOne(api.ReasonOverlayAnnotationDenied, "")
			retry = newRetry()
			select {
			case <-ctx.Done():
			case <-s.macChanged:
			}
			continue
		}
		if err := annotate(ctx, c, s.own, map[string]string{RouterMACAnnotation: mac}); err != nil {
			if ctx.Err() == nil {
				log.Warn("Annotating the Node with the address of this host's router failed", "error", err.Error())
			}
			if kubeapi.HasCode(err, http.StatusForbidden) {
				report.setOne(api.ReasonOverlayAnnotationDenied, deniedAnnotation(err))
			}
			_ = backoff.Sleep(ctx, retry.Next())
			continue
		}
		log.Info("Node annotated with the address of this host's router", "address", mac)
		s.setPublished(mac)
	}
}

// annotate sets annotations of a Node. OVN-Kubernetes only lets its nodes change their status, and the API server accepts annotations with it.
func annotate(ctx context.Context, c *kubeapi.Client, node string, annotations map[string]string) error {
	patch := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if err := c.Patch(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/status", kubeapi.StrategicMergePatch, patch, nil); err != nil {
		return fmt.Errorf("annotating Node %s with %v: %w", node, annotations, err)
	}
	return nil
}

// deniedAnnotation returns the message that other nodes do not get the address of this host's router.
func deniedAnnotation(err error) string {
	return "other nodes have no route to the pods of this node, because the API server does not allow this program to write annotation " + RouterMACAnnotation +
		": ovnkube-identity of OVN-Kubernetes must run with --enable-hybrid-overlay; " + truncate.Printable(err.Error(), maxAnswered)
}
