package policycni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
)

// dialTimeout is how long WICD may be away, because it restarts.
const dialTimeout = 10 * time.Second

// Main runs the command in the environment of this process, as the CNI specification describes it, and returns the exit code. dial connects to
// WICD, and waits for it until ctx ends.
func Main(dial func(ctx context.Context) (net.Conn, error)) (exit int) {
	nothing := func(*skel.CmdArgs) error { return nil }
	p := plugin{dial: dial}
	err := skel.PluginMainFuncsWithError(
		skel.CNIFuncs{Add: p.add, Check: nothing, Del: nothing, GC: nothing, Status: nothing}, version.All,
		"wicd-cni lets a pod start when WICD has applied its network policies.",
	)
	if err == nil {
		return 0
	}
	_ = err.Print()
	return 1
}

type plugin struct {
	dial func(ctx context.Context) (net.Conn, error)
}

// add asks WICD, and returns the result of the plugin before this one.
func (p plugin) add(args *skel.CmdArgs) error {
	result, conf, err := previous(args.StdinData)
	if err != nil {
		return err
	}
	r, err := request(args, result)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), policypipe.CallTimeout)
	defer cancel()
	if err := p.ask(ctx, r); err != nil {
		return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("the network policies of pod %s/%s are not in force, so it is not started; the kubelet tries again", r.Namespace, r.Name), err.Error())
	}
	return types.PrintResult(result, conf.CNIVersion)
}

func (p plugin) ask(ctx context.Context, r policypipe.Request) error {
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.dial(dialCtx)
	if err != nil {
		return fmt.Errorf("cannot reach WICD: start service %s on the node if it is stopped, or read its log: connecting to %s: %w", api.WICDService, policypipe.Name, err)
	}
	err = policypipe.Call(ctx, conn, r)
	if refused := new(policypipe.RefusedError); err == nil || errors.As(err, &refused) {
		return err // which says what to do
	}
	return fmt.Errorf("WICD has not responded: read the log of service %s on the node: %w", api.WICDService, err)
}

// previous returns the result of the plugin before this one.
func previous(stdin []byte) (types.Result, types.PluginConf, error) {
	var conf types.PluginConf
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, conf, types.NewError(types.ErrDecodingFailure, "parsing the network configuration", err.Error())
	}
	if err := version.ParsePrevResult(&conf); err != nil {
		return nil, conf, types.NewError(types.ErrDecodingFailure, "parsing prevResult of the network configuration", err.Error())
	}
	if conf.PrevResult == nil {
		return nil, conf, types.NewError(types.ErrInvalidNetworkConfig, "the network configuration has no prevResult",
			"wicd-cni must follow the plugin that connects the pod; it creates no network")
	}
	return conf.PrevResult, conf, nil
}

// request returns the request for the pod that the kubelet named, with the addresses that it got.
func request(args *skel.CmdArgs, result types.Result) (policypipe.Request, error) {
	r := policypipe.Request{ContainerID: args.ContainerID}
	wanted := map[string]*string{"K8S_POD_NAMESPACE": &r.Namespace, "K8S_POD_NAME": &r.Name, "K8S_POD_UID": &r.UID}
	for pair := range strings.SplitSeq(args.Args, ";") {
		name, value, _ := strings.Cut(pair, "=")
		if field := wanted[name]; field != nil && *field == "" {
			*field = value
		} else if field != nil {
			return r, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS has %s twice; once is allowed", name), "")
		}
	}
	for name, field := range wanted {
		if *field == "" {
			return r, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI_ARGS has no %s; the container runtime must name the pod", name), "")
		}
	}
	all, err := types100.NewResultFromResult(result)
	if err != nil {
		return r, types.NewError(types.ErrDecodingFailure, "converting prevResult", err.Error())
	}
	for _, ip := range all.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			r.Addresses = append(r.Addresses, a.Unmap())
		}
	}
	if len(r.Addresses) == 0 {
		return r, types.NewError(types.ErrInvalidNetworkConfig, "prevResult has no addresses", "wicd-cni must follow the plugin that connects the pod")
	}
	return r, nil
}
