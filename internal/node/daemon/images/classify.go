package images

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// codeDeadline is gRPC's code DeadlineExceeded.
const codeDeadline = 4

// maxCause limits how much of containerd's error a message quotes, in bytes.
const maxCause = 400

// finding is the known state of the wanted image.
type finding struct {
	known bool
	image string
	// reason is empty when the image is present.
	reason, message string
	since           time.Time
}

// classify returns the finding for a failed pull. hasFormer is true if pods start from inUse meanwhile.
func classify(now time.Time, wanted, inUse string, hasFormer bool, e *cri.Error) finding {
	c := causeOf(wanted, e)
	switch c.reason {
	case api.ReasonSandboxImageUnsuitable:
		c.advice = "set spec.runtime.sandboxImage of WindowsConfig to an image with one, or mirror it with all its entries (skopeo copy --all)"
	case api.ReasonSandboxImageNotFound:
		c.advice = "mirror it with all its entries (skopeo copy --all), or set spec.runtime.sandboxImage of WindowsConfig to an image that exists"
	}
	message := fmt.Sprintf("pulling sandbox image %s failed: %s; %s; %s; containerd says: %s", wanted, c.what, c.advice, effectOn(wanted, inUse, hasFormer),
		truncate.Text(withoutSecrets(e.Message), maxCause))
	return finding{known: true, image: wanted, reason: c.reason, message: truncate.Text(message, truncate.Note), since: now}
}

// cause is why an image could not be pulled.
type cause struct {
	// reason is a reason of condition SandboxImage.
	reason string
	// what is in words what happened, advice what to check.
	what, advice string
}

// causeOf interprets containerd's error for a pull.
func causeOf(image string, e *cri.Error) cause {
	registry, _, _ := strings.Cut(image, "/")
	requested, status := refusalOf(e.Message)
	isFromWICD := requested == desired.RegistryAddress // its message names the registries and their answers
	if isFromWICD {
		requested = registry
	}
	const mirrorAll = "mirror it with all its entries (skopeo copy --all)"
	switch {
	case strings.Contains(e.Message, "no match for platform"): // from images.Manifest of containerd
		return cause{api.ReasonSandboxImageUnsuitable, "it has no entry for this host's build of Windows", mirrorAll}
	case isFromWICD && strings.Contains(e.Message, mirrors.NotFound):
		return cause{api.ReasonSandboxImageNotFound, mirrors.NotFound + " (404 Not Found)", mirrorAll}
	case isFromWICD && status == "403 Forbidden" && !strings.Contains(e.Message, mirrors.RefusesCredentials):
		return cause{api.ReasonSandboxImagePullFailed, "no permitted registry delivered it",
			"check that nodes reach them, and the settings for registries, mirrors, proxy and certificates"}
	case isFromWICD && status == "403 Forbidden":
		return cause{api.ReasonSandboxImageDenied,
			"no permitted registry delivered it, and one rejects the node's credentials (401 Unauthorized or 403 Forbidden)",
			"check the credentials of the registry in the pull secret"}
	case status == "401 Unauthorized" || status == "403 Forbidden" || strings.Contains(e.Message, "pull access denied"):
		return cause{api.ReasonSandboxImageDenied, fmt.Sprintf("registry %s answered %s", cmp.Or(requested, registry), cmp.Or(status, "401 Unauthorized")),
			"check the name of the image, and the credentials of the registry in the pull secret"}
	case status != "":
		return cause{api.ReasonSandboxImagePullFailed, fmt.Sprintf("registry %s answered %s", requested, status), "check the registry"}
	case e.Code == cri.NotFound:
		return cause{api.ReasonSandboxImageNotFound, fmt.Sprintf("neither registry %s nor a permitted mirror of it has it (404 Not Found)", registry), mirrorAll}
	}
	return cause{api.ReasonSandboxImagePullFailed, fmt.Sprintf("registry %s or a mirror of it could not be reached, or did not deliver the image", registry),
		"check that nodes reach it, and the settings for proxy, certificates and mirrors"}
}

// slowPullFinding returns the finding for a slow pull: a registry may be slow, or not answer.
func slowPullFinding(began time.Time, wanted, inUse string, hasFormer bool) finding {
	message := fmt.Sprintf("pulling sandbox image %s has been in progress since %s; %s", wanted, began.UTC().Format(time.RFC3339), effectOn(wanted, inUse, hasFormer))
	return finding{known: true, image: wanted, reason: api.ReasonSandboxImagePulling, message: message, since: began}
}

// effectOn describes the effect of the missing image on pods.
func effectOn(wanted, inUse string, hasFormer bool) string {
	switch {
	case !hasFormer:
		return "the node is not Ready until it is pulled"
	case wanted == inUse:
		return "the image was removed from the host: new pods cannot start"
	}
	return "pods start from " + inUse + " until it is pulled"
}

var (
	urlWithSecrets = regexp.MustCompile(`(https?://)(?:[^\s/"@]*@)?([^\s?"]*)(?:\?[^\s":]*)?`)
	refusedRequest = regexp.MustCompile(`unexpected status from [A-Z]+ request to (\S+): ([0-9]{3} [A-Za-z -]+)`)
)

// withoutSecrets removes users, passwords and queries from URLs: registries redirect to content stores by URLs that contain credentials.
func withoutSecrets(text string) string {
	return urlWithSecrets.ReplaceAllString(text, "$1$2")
}

// refusalOf extracts the registry or mirror that refused a request, and its HTTP status, from an error of containerd
// (core/remotes/errors.ErrUnexpectedStatus). Both are empty if it has none.
func refusalOf(message string) (registry, status string) {
	found := refusedRequest.FindStringSubmatch(message)
	if found == nil {
		return "", ""
	}
	u, err := url.Parse(found[1])
	if err != nil || u.Host == "" {
		return "", ""
	}
	return u.Host, strings.TrimSpace(found[2])
}

// ReportTo reports whether the sandbox image is present by a condition, and each reason why not by an event.
func (r *Sandbox) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	r.mu.Lock()
	f := r.last
	r.mu.Unlock()
	c := corev1.NodeCondition{
		Type: api.ConditionSandboxImage, Status: corev1.ConditionTrue, Reason: api.ReasonSandboxImagePresent, Message: "sandbox image " + f.image + " is on the host",
	}
	switch {
	case !f.known:
		return nil
	case f.reason == "":
		return w.SetCondition(ctx, node, c)
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, f.reason, f.message
	return w.SetCondition(ctx, node, c, nodestatus.Problem{Service: "sandbox-image", Reason: f.reason, Message: f.message, Since: f.since})
}
