//go:build linux

// Command demo shows how a Windows host becomes a node: it starts a cluster, installs the operator, announces hosts like a
// user, shows each step until all hosts are Ready nodes, runs pods, and connects to them through a Service.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

func main() {
	hosts := flag.String("hosts", "1", "the number of Windows hosts on Wine, or sim:`n` for n simulated hosts")
	exit := flag.Bool("exit", false, "exit when all hosts are Ready nodes and pods run, instead of waiting for Ctrl-C")
	timeout := flag.Duration("timeout", 10*time.Minute, "the time limit for the hosts to become Ready, and for the pods to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *hosts, *exit, *timeout); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, hosts string, exit bool, timeout time.Duration) error {
	options, err := parse(hosts)
	if err != nil {
		return err
	}
	begin := time.Now()
	logf("Bringing up a cluster (kube-apiserver, etcd, controller-manager, scheduler) and %s", describe(options))
	env, err := testenv.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		logf("Removing everything")
		env.Close()
	}()
	runsAs := "as a process with the permissions of its own ServiceAccount"
	if env.Pod != nil {
		runsAs = "as a pod of control plane node " + env.Pod.Node.Name()
	}
	logf("The operator is installed from deploy/ and runs %s (%.0f s so far)", runsAs, time.Since(begin).Seconds())
	if err := env.Configure(ctx); err != nil {
		return err
	}
	logf("Secret cloud-private-key and WindowsConfig cluster are made")
	announced := time.Now()
	if err := env.Announce(ctx, env.Hosts()...); err != nil {
		return err
	}
	logf("The hosts are announced: %s", announcement(env.Hosts()))
	joinCtx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not every host became a Ready node within %s", timeout))
	defer cancel()
	if err := watch(joinCtx, env, announced); err != nil {
		return errors.Join(err, errors.New(env.Diagnosis()))
	}
	podCtx, cancelPods := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the pods did not run within %s", timeout))
	defer cancelPods()
	for _, show := range []func(context.Context, *testenv.Env) error{startDNS, runPods, useService} {
		if err := show(podCtx, env); err != nil {
			return errors.Join(err, errors.New(env.Diagnosis()))
		}
	}
	fmt.Print(next(env))
	if !exit {
		logf("Everything stays up until Ctrl-C")
		<-ctx.Done()
	}
	return nil
}

// parse parses -hosts. If Wine hosts cannot run, it uses simulated hosts.
func parse(hosts string) (testenv.Options, error) {
	o := testenv.Options{Log: os.Stdout}
	count, simulated := strings.CutPrefix(hosts, "sim:")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 1000 {
		return o, fmt.Errorf("HOSTS=%s: want a number from 1 to 1000, or sim: and a number", hosts)
	}
	if err := lab.CanHaveHosts(); err != nil {
		return o, err
	}
	if !simulated {
		if err := cmp.Or(lab.CanRunWindows(), lab.CanRunRegistries()); err != nil {
			logf("%v: continuing with simulated hosts: SSH and certificates are real, Windows is not", err)
			simulated = true
		}
	}
	if simulated {
		o.SimulatedHosts, o.NoQuirks = n, "it is shown to people"
	} else {
		o.WineHosts, o.Network, o.Pods = n, testenv.NetworkHybridOverlay, true
	}
	if err := lab.CanRunLinuxNodes(); err != nil {
		logf("%v: the operator runs without a pod", err)
	} else {
		o.Pod = true
	}
	return o, nil
}

func describe(o testenv.Options) string {
	if o.WineHosts > 0 {
		return fmt.Sprintf("%d Windows host(s) on Wine", o.WineHosts)
	}
	return fmt.Sprintf("%d simulated host(s)", o.SimulatedHosts)
}

func announcement(hosts []testenv.Host) string {
	return fmt.Sprintf("ConfigMap windows-instances has %d entries like %s: username=%s", len(hosts), hosts[0].Address, testenv.User)
}

func logf(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

// next returns commands to try.
func next(env *testenv.Env) string {
	return fmt.Sprintf(`
Kubeconfig: %[1]s
Try:
  kubectl --kubeconfig %[1]s get nodes -o wide
  kubectl --kubeconfig %[1]s get windowsinstances -A
  kubectl --kubeconfig %[1]s describe winst -n openshift-windows-machine-config-operator
  kubectl --kubeconfig %[1]s get csr
%[2]s%[3]s`, env.Kubeconfig, nextWithOperator(env), nextWithPods(env))
}

func nextWithOperator(env *testenv.Env) string {
	if env.Pod == nil {
		return ""
	}
	return fmt.Sprintf("  kubectl --kubeconfig %s logs -n openshift-windows-machine-config-operator deployment/windows-machine-config-operator\n", env.Kubeconfig)
}

func nextWithPods(env *testenv.Env) string {
	if !env.RunsPods() {
		return ""
	}
	return fmt.Sprintf(`  kubectl --kubeconfig %[1]s get pods -o wide
  kubectl --kubeconfig %[1]s logs deployment/%[2]s
  kubectl --kubeconfig %[1]s exec deployment/%[2]s -- webserver echo hello
  kubectl --kubeconfig %[1]s exec deployment/%[2]s -- webserver get http://%[2]s
  curl http://<address of a pod>:%[3]d
`, env.Kubeconfig, webserver, testenv.WebserverPort)
}
