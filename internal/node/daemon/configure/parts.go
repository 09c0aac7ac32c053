package configure

import (
	"fmt"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/store"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// target is the requested state of a host.
type target struct {
	request wicdapi.JoinRequest
	// wanted is the request resolved for this host.
	wanted desired.Node
	former former
	// restarts are shared by all parts.
	restarts restarts
}

// newTarget resolves a request. It rejects requests that cannot result in a node, or whose paths could leave their folders.
func newTarget(request wicdapi.JoinRequest) (target, error) {
	wanted, err := state.Record{JoinRequest: request}.Wanted()
	if err != nil {
		return target{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: err.Error()}
	}
	if err := checkRequest(request, wanted); err != nil {
		return target{}, err
	}
	request.Register, request.Hostname, request.Retried = false, "", "" // requested once, not part of the host's state
	return target{request: request, wanted: wanted, restarts: restarts{}}, nil
}

// withFormer returns the target with the former state of the host taken into account: the host keeps its sandbox image until it has the
// next one, and its kubelet's resources while it cannot have the next ones.
func (t target) withFormer(d hostapi.Disk, facts wicdapi.HostFacts) (target, error) {
	last, err := readFormer(d)
	if err != nil {
		return target{}, err
	}
	request, same := t.request, former{}
	if last.Cluster == request.Cluster && !last.Leaving {
		same = last
		request.Local.SandboxImage = same.Local.WithImageInUse(same.Desired, request.Desired).SandboxImage
	}
	if request.Local.Kubelet, err = same.heldKubelet(facts, request.Desired); err != nil {
		return target{}, err
	}
	renewed, err := newTarget(request)
	if err != nil {
		return target{}, err
	}
	t.request, t.wanted, t.former = renewed.request, renewed.wanted, last
	return t, nil
}

// checkRequest rejects requests that cannot result in a node, or that exceed the bounds of nodes.
func checkRequest(r wicdapi.JoinRequest, wanted desired.Node) error {
	invalid := func(format string, args ...any) error {
		return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(format, args...)}
	}
	if r.Node == "" || r.Cluster == "" {
		return invalid("node is %q and cluster is %q; both are needed", r.Node, r.Cluster)
	}
	if err := hostapi.CheckHostname(r.Hostname); r.Hostname != "" && err != nil {
		return invalid("hostname: %v", err)
	}
	if err := checkDeclared("desired", r.Desired, wanted); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// checkDeclared rejects declarations that exceed the bounds of nodes, or whose paths could leave their folders. field is the name of the declaration.
func checkDeclared(field string, declared, wanted desired.Node) error {
	if !store.IsHash(declared.Digest) {
		return fmt.Errorf("%s.digest is %q; 64 lower-case hexadecimal digits are needed", field, declared.Digest)
	}
	if err := checkKeys(declared.AuthorizedKeys); err != nil {
		return fmt.Errorf("%s.authorizedKeys%w", field, err)
	}
	for i, f := range declared.Payload {
		if !store.IsHash(f.SHA256) || !hostapi.IsRelative(f.Path) {
			return fmt.Errorf(`%s.payload[%d] is %q with sha256 %q; a relative path such as cni\host-local.exe and 64 hexadecimal digits are needed`,
				field, i, f.Path, f.SHA256)
		}
	}
	if err := wanted.CheckBounds(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// parts are the parts of a host, each with its wanted state.
type parts struct {
	folders      folders
	keys         sshKeys
	programs     programs
	files        files
	registries   registries
	environment  environment
	certificates certificates
	firewall     firewall
	exclusions   exclusions
	record       record
	services     services
}

func newParts(w work, t target) parts {
	return parts{
		folders:      folders{work: w, declared: t.wanted.Directories, users: t.wanted.UserNetwork.Folders()},
		keys:         sshKeys{work: w, wanted: t.wanted.AuthorizedKeys},
		programs:     programs{work: w, restarts: t.restarts, wanted: t.wanted},
		files:        files{work: w, restarts: t.restarts, wanted: t.wanted, former: t.former.wanted.Files},
		registries:   registries{work: w, wanted: t.wanted.Registries},
		environment:  environment{work: w, values: t.wanted.Environment, watched: t.wanted.WatchedEnvironment},
		certificates: certificates{work: w, wanted: t.wanted.Certificates},
		firewall:     firewall{work: w, rules: t.wanted.Firewall},
		exclusions:   exclusions{work: w, wanted: t.wanted.Exclusions},
		record:       record{work: w, request: t.request, former: t.former},
		services: services{
			work: w, restarts: t.restarts, wanted: t.wanted.Services,
			launches: launches{disk: w.Disk, restarts: t.restarts, node: t.request.Node, mayRead: t.wanted.Files},
			networks: networks{work: w, wanted: t.wanted.Network, former: t.former.wanted.Network},
			kubelet:  kubeletState{work: w, wanted: t.wanted.KubeletResources().State()},
		},
	}
}
