//go:build linux

// Command demo shows how a Windows host becomes a node: it brings up a cluster, installs the operator, announces
// hosts the way users do, and shows each step until every host is a Ready node and runs pods.
package main

import (
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
	"github.com/windows-machine-config/wmco/lab/world"
)

func main() {
	hosts := flag.String("hosts", "1", "how many Windows hosts on Wine, or sim:`n` for n simulated ones")
	exit := flag.Bool("exit", false, "end when every host is a Ready node and pods run, instead of staying up until Ctrl-C")
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the hosts may take to become Ready, and the pods to run")
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
	say("Bringing up a cluster (kube-apiserver, etcd, controller-manager, scheduler) and %s", described(options))
	w, err := world.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		say("Removing everything")
		w.Close()
	}()
	say("The operator is installed from deploy/ and runs under its own ServiceAccount (%.0f s so far)", time.Since(begin).Seconds())
	if err := w.Configure(ctx); err != nil {
		return err
	}
	say("Secret cloud-private-key and WindowsConfig cluster are made")
	announced := time.Now()
	if err := w.Announce(ctx, w.Hosts()...); err != nil {
		return err
	}
	say("The hosts are announced: %s", announcement(w.Hosts()))
	joinCtx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not every host became a Ready node within %s", timeout))
	defer cancel()
	if err := watch(joinCtx, w, announced); err != nil {
		return errors.Join(err, errors.New(w.Diagnosis()))
	}
	podCtx, cancelPods := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the pods did not run within %s", timeout))
	defer cancelPods()
	if err := runPods(podCtx, w); err != nil {
		return errors.Join(err, errors.New(w.Diagnosis()))
	}
	fmt.Print(next(w))
	if !exit {
		say("Everything stays up until Ctrl-C")
		<-ctx.Done()
	}
	return nil
}

// parse reads -hosts. Where Wine cannot run it says so and goes on with simulated hosts.
func parse(hosts string) (world.Options, error) {
	o := world.Options{Log: os.Stdout}
	count, simulated := strings.CutPrefix(hosts, "sim:")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 1000 {
		return o, fmt.Errorf("HOSTS=%s: want a number from 1 to 1000, or sim: and a number", hosts)
	}
	if err := lab.CanHaveHosts(); err != nil {
		return o, err
	}
	if !simulated {
		if err := lab.CanRunWindows(); err != nil {
			say("%v: going on with simulated hosts, whose SSH and certificates are real and whose Windows is not", err)
			simulated = true
		}
	}
	if simulated {
		o.SimulatedHosts = n
	} else {
		o.WineHosts, o.Pods = n, true
		if err := lab.CanRunRegistries(); err != nil {
			say("%v: going on without pods, whose images nobody serves", err)
			o.Pods = false
		}
	}
	return o, nil
}

func described(o world.Options) string {
	if o.WineHosts > 0 {
		return fmt.Sprintf("%d Windows host(s) on Wine", o.WineHosts)
	}
	return fmt.Sprintf("%d simulated host(s)", o.SimulatedHosts)
}

func announcement(hosts []world.Host) string {
	return fmt.Sprintf("ConfigMap windows-instances has %d entries like %s: username=%s", len(hosts), hosts[0].Address, world.User)
}

func say(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

// next says what can be tried now.
func next(w *world.World) string {
	return fmt.Sprintf(`
Kubeconfig: %[1]s
Try:
  kubectl --kubeconfig %[1]s get nodes -o wide
  kubectl --kubeconfig %[1]s get windowsinstances -A
  kubectl --kubeconfig %[1]s describe winst -n openshift-windows-machine-config-operator
  kubectl --kubeconfig %[1]s get csr
%[2]s`, w.Kubeconfig, nextWithPods(w))
}

func nextWithPods(w *world.World) string {
	if !w.RunsPods() {
		return ""
	}
	return fmt.Sprintf(`  kubectl --kubeconfig %[1]s get pods -o wide
  kubectl --kubeconfig %[1]s logs deployment/%[2]s
  kubectl --kubeconfig %[1]s exec deployment/%[2]s -- webserver echo hello
  curl http://<address of a pod>:%[3]d
`, w.Kubeconfig, webserver, world.WebserverPort)
}
