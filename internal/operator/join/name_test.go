package join_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

const awsName = "ip-10-0-0-7.us-east-2.compute.internal"

func TestNodeNameDependsOnPlatform(t *testing.T) {
	long := strings.Repeat("a", 60)
	for name, test := range map[string]struct {
		facts func(*wicdapi.Facts)
		want  string
		// reason and message are expected from Check; empty if it accepts the host.
		reason, message string
	}{
		"no platform":         {facts: func(*wicdapi.Facts) {}, want: "win-1"}, // https://github.com/Azure/AKSFlexNode/issues/184
		"bare metal":          {facts: func(f *wicdapi.Facts) { f.Platform, f.Host.Domain = "BareMetal", "corp.example" }, want: "win-1"},
		"Azure":               {facts: func(f *wicdapi.Facts) { f.Platform, f.Host.Domain = "Azure", "corp.example" }, want: "win-1"},
		"AWS":                 {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, awsName }, want: awsName},
		"AWS, another domain": {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, "ip-10-0-0-1.corp.example" }, want: "ip-10-0-0-1.corp.example"}, // https://github.com/kubernetes/kops/issues/3067
		"GCP":                 {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.GCP, "win-1.c.p.internal" }, want: "win-1.c.p.internal"},
		"GCP, one label":      {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.GCP, "other" }, want: "other"},
		"AWS, odd host name":  {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName, f.Host.Hostname = platform.AWS, awsName, "win_1" }, want: awsName},
		"AWS without an answer for a joined node": {facts: func(f *wicdapi.Facts) {
			f.Platform, f.NoCloudName, f.Joined = platform.AWS, "no answer", &wicdapi.Joined{Node: awsName}
		}, want: awsName},
		"AWS with a changed name": {facts: func(f *wicdapi.Facts) {
			f.Platform, f.CloudName, f.Joined = platform.AWS, awsName, &wicdapi.Joined{Node: "old"}
		}, want: awsName},
		"vSphere":            {facts: func(f *wicdapi.Facts) { f.Platform, f.Host.Domain = platform.VSphere, "Corp.example" }, want: "win-1.corp.example"},
		"vSphere, no domain": {facts: func(f *wicdapi.Facts) { f.Platform = platform.VSphere }, want: "win-1"},
		"Nutanix":            {facts: func(f *wicdapi.Facts) { f.Platform, f.Host.Domain = platform.Nutanix, "corp.example" }, want: "win-1.corp.example"},
		"64 characters":      {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, long+".b.c" }, want: long + ".b.c", reason: api.ReasonHostnameInvalid, message: "at most 63"}, // https://github.com/terraform-aws-modules/terraform-aws-eks/issues/389
		"63 characters":      {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, long+".bc" }, want: long + ".bc"},
		"name of a Service":  {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, "kubernetes.default.svc" }, want: "kubernetes.default.svc", reason: api.ReasonHostnameInvalid, message: "kubernetes.default.svc"},
		"name of a Service with the cluster domain": {facts: func(f *wicdapi.Facts) { f.Platform, f.CloudName = platform.AWS, "a.b.svc.cluster.local" }, want: "a.b.svc.cluster.local", reason: api.ReasonHostnameInvalid, message: "has a fixed meaning"},
		"invalid domain": {facts: func(f *wicdapi.Facts) { f.Platform, f.Host.Domain = platform.VSphere, "corp_1" }, want: "win-1.corp_1", reason: api.ReasonHostnameInvalid, message: "VSphere"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := goodHost()
			test.facts(&facts)
			if got := join.NodeName(facts); got != test.want {
				t.Errorf("name %q, want %q", got, test.want)
			}
			u := join.Check(facts, join.CheckInput{Now: noon()})
			if u == nil {
				u = &join.Unsupported{}
			}
			if u.Reason != test.reason || !strings.Contains(u.Message, test.message) {
				t.Errorf("the check returns %q: %s; want %q, %q", u.Reason, u.Message, test.reason, test.message)
			}
		})
	}
}

// cloudHost is a fake host with or without a cloud name.
type cloudHost struct {
	noFiles
	facts    wicdapi.Facts
	commands []string
	request  wicdapi.JoinRequest
	// reachRequest is the received request, reach the reply to it.
	reachRequest wicdapi.ReachRequest
	reach        wicdapi.ReachResult
}

func (h *cloudHost) Close() error { return nil }

func (h *cloudHost) Put(context.Context, string, io.Reader, int64) error {
	return errors.New("WICD is there")
}

func (h *cloudHost) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	_, arguments, _ := strings.Cut(command, " ")
	h.commands = append(h.commands, arguments)
	s := wicdapi.NewSession(stdin, stdout)
	verb, _, _ := strings.Cut(arguments, " ")
	switch verb {
	case wicdapi.CommandFacts:
		s.End(h.facts, nil)
	case wicdapi.CommandReach:
		if err := s.Request(&h.reachRequest); err != nil {
			return err
		}
		s.End(h.reach, nil)
	case wicdapi.CommandReceive:
		if err := errors.Join(s.Request(&wicdapi.ReceiveRequest{}), s.Missing(nil)); err != nil {
			return err
		}
		s.End(wicdapi.ReceiveResult{}, nil)
	case wicdapi.CommandJoin:
		if err := s.Request(&h.request); err != nil {
			return err
		}
		s.End(wicdapi.JoinResult{}, nil)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// joinOn returns a Job that joins a host to a cluster on a platform whose API server is at server.
func joinOn(h *cloudHost, where, server string) *join.Job {
	wicd := payload.File{Path: payload.WICD, Component: "wicd", Group: payload.Base, SHA256: program(), Size: 1}
	content := payload.New([]payload.File{wicd}, payload.File{})
	return &join.Job{
		Visit: join.Visit{
			Host: reached{h}, Payload: &payload.Payload{Manifest: content}, Content: content, Observer: unobserved{},
			Now: func() time.Time { return h.facts.Host.Clock },
		},
		Transfer: join.Transfer{TakeSlot: (&slots{left: 1}).take},
		Cluster:  emptyCluster{platform: where, server: server},
	}
}

// emptyCluster accepts every host.
type emptyCluster struct{ platform, server string }

func (c emptyCluster) Known(context.Context) (desired.Cluster, error) {
	known := desired.Cluster{ID: "1", Server: c.server, ServerFrom: "ConfigMap kube-public/cluster-info", CA: "the CA"}
	known.Network.Platform = c.platform
	return known, nil
}

func (c emptyCluster) Identify(context.Context, wicdapi.Facts) (join.Identity, error) {
	return join.Identity{Unregistered: true}, nil
}

func (c emptyCluster) Accept(context.Context, wicdapi.Facts) error { return nil }

func (c emptyCluster) Desired(context.Context) (join.Want, error) {
	return join.Want{Cluster: desired.Cluster{ID: "1", Server: c.server}}, nil
}

func (c emptyCluster) Token(context.Context) (string, error) { return "token", nil }

func TestHostJoinsWithCloudName(t *testing.T) {
	for _, test := range []struct{ platform, command, node string }{
		{platform.AWS, "facts --platform=AWS", awsName},
		{platform.GCP, "facts --platform=GCP", awsName},
		{"Azure", "facts", "win-1"},
		{"", "facts", "win-1"},
		{"AWS & shutdown.exe", "facts", "win-1"},
	} {
		h := &cloudHost{facts: goodHost()}
		h.facts.CloudName = awsName
		if err := joinOn(h, test.platform, "https://api.example:6443").Run(t.Context()); err != nil {
			t.Fatalf("%q: %v", test.platform, err)
		}
		if h.commands[0] != test.command {
			t.Errorf("%q: the host received command %q, want %q", test.platform, h.commands[0], test.command)
		}
		if h.request.Node != test.node || h.request.NodeIP != "10.0.0.7" || h.request.Adapter != "Ethernet" {
			t.Errorf("%q: it joins as %+v, want node %s", test.platform, h.request.Local, test.node)
		}
	}
}

func TestHostWithoutCloudNameDoesNotJoin(t *testing.T) {
	h := &cloudHost{facts: goodHost()}
	h.facts.NoCloudName = "querying http://169.254.169.254/latest/meta-data/local-hostname: no response within 2s (3 attempts)"
	err := joinOn(h, platform.AWS, "https://api.example:6443").Run(t.Context())
	var step *join.StepError
	if !errors.As(err, &step) || step.Step != join.StepCheck {
		t.Fatalf("the join ends with %v, want a failure of step %s, which is tried again", err, join.StepCheck)
	}
	for _, part := range []string{"AWS", "local-hostname: no response within 2s", "routes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

// TestHostCannotHaveAPIServerName expects a refusal, because the kubelet would get a certificate for the name.
func TestHostCannotHaveAPIServerName(t *testing.T) {
	h := &cloudHost{facts: goodHost()}
	h.facts.CloudName = "api.example.com"
	err := joinOn(h, platform.AWS, "https://API.example.com:6443").Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "api.example.com") || h.request.Node != "" {
		t.Errorf("the join ends with %v, want a refusal; the host was requested to become %q", err, h.request.Node)
	}
}
