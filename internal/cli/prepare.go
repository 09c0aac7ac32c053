package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/prepare"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// prepareOptions are the flags of the command that prepares a machine for an image.
type prepareOptions struct {
	payload, kubernetes, user, key, hostKey, sandboxImage, proxy string
	acceptHostKey, hyperV                                        bool
}

// prepareImage returns the command that prepares a machine to be captured as an image.
func prepareImage(s *session.Session) *cobra.Command {
	var o prepareOptions
	c := &cobra.Command{
		Use:   "prepare ADDRESS",
		Short: "Prepare a Windows machine to be captured as an image",
		Long: "Send the content of nodes to a Windows machine that is not a node, enable the Windows features that nodes need, and have containerd pull the\n" +
			"sandbox image of pods, over SSH. The machine restarts if a feature needs that. Then make an image of it, with the tools of your platform: a\n" +
			"machine that is made from the image joins without a transfer, without a restart for features, and without a pull of the sandbox image. Nothing\n" +
			"of the cluster is put into the image, and the cluster is not contacted.\n\n" +
			"The content is folder /payload of the operator's image. A machine whose content is of another version gets what differs when it joins.",
		Example: "  oc image extract IMAGE --path /payload/:payload\n  kubectl windows prepare 10.0.0.7 --payload payload --key key --host-key 'ssh-ed25519 AAAA...'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return session.Failf(session.CodeUsage, "%s requires the address of one machine, as ADDRESS or ADDRESS:PORT", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), s, args[0]) },
	}
	flags := c.Flags()
	flags.StringVar(&o.payload, "payload", "", "Folder with the operator's payload (required).")
	flags.StringVar(&o.kubernetes, "kubernetes", "", "Send only the content for this minor version of Kubernetes (major.minor). By default, send the content for all.")
	flags.StringVar(&o.user, "user", "Administrator", "User to log in with. Use the one with which the operator logs in: WICD is in the home folder of this user.")
	flags.StringVar(&o.key, "key", "", "File with the private SSH key (required).")
	flags.StringVar(&o.hostKey, "host-key", "", "Host key of the machine, as in the file ssh_host_ed25519_key.pub.")
	flags.BoolVar(&o.acceptHostKey, "accept-host-key", false, "Accept any host key, such as that of a machine that was just created. It is printed.")
	flags.BoolVar(&o.hyperV, "hyper-v", false, "Also enable feature Hyper-V, for Hyper-V isolation.")
	flags.StringVar(&o.sandboxImage, "sandbox-image", desired.DefaultSandboxImage,
		"Sandbox image to pull: the one in spec.runtime.sandboxImage of WindowsConfig. With an empty name, machines pull it when they join.")
	flags.StringVar(&o.proxy, "proxy", "", "URL of the proxy through which the machine pulls the sandbox image, as http://host:port. It is not put into the image.")
	return c
}

func (o prepareOptions) run(ctx context.Context, s *session.Session, address string) error {
	target, err := o.target(address)
	if err != nil {
		return err
	}
	p, content, err := o.content(s.Version)
	if err != nil {
		return err
	}
	request, err := o.request(s.Version, content)
	if err != nil {
		return err
	}
	preparation := prepare.Preparation{Payload: p, Content: content, Request: request, Observer: &progressPrinter{out: s.ErrOut}}
	preparation.Dial = func(ctx context.Context) (*remote.Host, error) {
		h, err := remote.Dial(ctx, target, remote.Options{})
		if err == nil && target.HostKey == nil {
			target.HostKey = h.HostKey() // of the machine that the first connection met
			fmt.Fprintf(s.ErrOut, "accepted host key %s\n", remote.FormatHostKey(target.HostKey))
		}
		return h, err
	}
	if err := preparation.Run(ctx); err != nil {
		return session.Failf(session.CodeFailed, "preparing %s: %s", address, truncate.Printable(err.Error(), truncate.Note))
	}
	fmt.Fprintf(s.Out, "%s is prepared: shut it down or generalize it, and make an image of it\n", address)
	return nil
}

// request returns what the machine should have in addition to the content.
func (o prepareOptions) request(version string, content payload.Manifest) (wicdapi.PrepareRequest, error) {
	r := wicdapi.PrepareRequest{Features: []string{desired.ContainersFeature}}
	if o.hyperV {
		r.Features = append(r.Features, desired.HyperVFeature)
	}
	if err := proxy.Check(o.proxy); err != nil {
		return r, session.Failf(session.CodeUsage, "--proxy %w", err)
	}
	if o.sandboxImage == "" {
		return r, nil
	}
	containerd, err := desired.ForImage(version, content, o.sandboxImage, o.proxy)
	switch {
	case errors.Is(err, desired.ErrNoContainerd):
		return r, session.Failf(session.CodeUsage, "--payload: %w, which pulls the sandbox image; use another payload, or --sandbox-image=", err)
	case err != nil:
		return r, session.Failf(session.CodeUsage, "--sandbox-image: %w", err)
	}
	r.Containerd = &containerd
	return r, nil
}

// target returns the machine to connect to.
func (o prepareOptions) target(address string) (remote.Target, error) {
	t := remote.Target{Address: address, User: o.user, KnownOnly: !o.acceptHostKey}
	if name, port, err := net.SplitHostPort(address); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return t, session.Failf(session.CodeUsage, "port %q of %s is invalid: use 1 to 65535", port, address)
		}
		t.Address, t.Port = name, int(number)
	}
	switch {
	case o.key == "":
		return t, session.Failf(session.CodeUsage, "--key is required: the file with the private SSH key that the machine accepts")
	case o.hostKey == "" && !o.acceptHostKey:
		return t, session.Failf(session.CodeUsage, "--host-key is required: the host key of the machine, or --accept-host-key")
	case o.hostKey != "" && o.acceptHostKey:
		return t, session.Failf(session.CodeUsage, "--host-key and --accept-host-key are mutually exclusive")
	}
	text, err := os.ReadFile(o.key)
	if err != nil {
		return t, session.Failf(session.CodeUsage, "--key: %w", err)
	}
	if t.Key, err = remote.ParsePrivateKey(text); err != nil {
		return t, session.Failf(session.CodeUsage, "--key %s: %w", o.key, err)
	}
	if o.hostKey != "" {
		if t.HostKey, err = remote.ParseHostKey(o.hostKey); err != nil {
			return t, session.Failf(session.CodeUsage, "--host-key: %w", err)
		}
	}
	return t, nil
}

// content opens the payload, and returns the part of it that the machine gets.
func (o prepareOptions) content(version string) (*payload.Payload, payload.Manifest, error) {
	if o.payload == "" {
		return nil, payload.Manifest{}, session.Failf(session.CodeUsage, "--payload is required: folder /payload of the operator's image, as from oc image extract")
	}
	p, err := payload.Open(o.payload)
	if err != nil {
		return nil, payload.Manifest{}, session.Failf(session.CodeUsage, "--payload: %w", err)
	}
	if o.kubernetes == "" {
		return p, p.Manifest, nil
	}
	releases := kubeversions.Of(version, p.Manifest)
	for _, r := range releases {
		if r.Minor == o.kubernetes {
			return p, r.Content, nil
		}
	}
	return nil, payload.Manifest{}, session.Failf(session.CodeUsage, "--kubernetes %s: the payload has content for %s", o.kubernetes, p.Manifest.Minors())
}

// progressPrinter prints the progress of steps, a line each.
type progressPrinter struct {
	out  io.Writer
	last string
}

// Progress implements join.Observer.
func (p *progressPrinter) Progress(progress join.Progress) {
	line := progress.Step + ": " + cmp.Or(truncate.Printable(progress.Message, truncate.Note), string(progress.State))
	if progress.State == v1alpha1.StepFailed || line == p.last { // a failure ends the command with its message
		return
	}
	p.last = line
	fmt.Fprintln(p.out, line)
}

// Altered implements join.Observer.
func (p *progressPrinter) Altered(paths []string) {
	fmt.Fprintf(p.out, "content on the machine had been altered and was replaced: %q\n", paths)
}
