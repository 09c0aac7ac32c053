package copies_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/oci/archive"
	"go.podman.io/image/v5/oci/layout"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// tool copies an image with all its platforms.
type tool struct {
	name string
	copy func(ctx context.Context, from, to string) error
}

// eachTool runs a test with the library of the current skopeo, and with the installed skopeo, which is old on Debian 12.
func eachTool(t *testing.T, run func(*testing.T, tool)) {
	t.Helper()
	t.Run("library", func(t *testing.T) { run(t, tool{"the library of skopeo", copyWithLibrary}) })
	t.Run("skopeo", func(t *testing.T) {
		version, err := exec.CommandContext(t.Context(), "skopeo", "--version").Output()
		if err != nil {
			t.Skip("SKIPPED: skopeo is not installed (apt-get install skopeo): ", err)
		}
		run(t, tool{strings.TrimSpace(string(version)), copyWithProgram})
	})
}

func copyWithProgram(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "--dest-tls-verify=false", "--all", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// copyWithLibrary copies like skopeo copy --all.
func copyWithLibrary(ctx context.Context, from, to string) error {
	source, errSource := parse(from)
	destination, errDestination := parse(to)
	policy, errPolicy := signature.NewPolicyContext(&signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	if err := errors.Join(errSource, errDestination, errPolicy); err != nil {
		return err
	}
	plain := &types.SystemContext{DockerInsecureSkipTLSVerify: types.OptionalBoolTrue}
	_, err := copy.Image(ctx, policy, destination, source, &copy.Options{ImageListSelection: copy.CopyAllImages, SourceCtx: plain, DestinationCtx: plain})
	return errors.Join(err, policy.Destroy())
}

func parse(name string) (types.ImageReference, error) {
	transport, rest, _ := strings.Cut(name, ":")
	switch transport {
	case "docker":
		return docker.ParseReference(rest)
	case "oci-archive":
		return archive.ParseReference(rest)
	case "oci":
		return layout.ParseReference(rest)
	}
	return nil, fmt.Errorf("transport %q is not used here", transport)
}
