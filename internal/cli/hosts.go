package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (f *waitFlags) add(c *cobra.Command, condition string, timeout time.Duration) {
	c.Flags().BoolVar(&f.wait, "wait", true, "Wait until "+condition+", and show progress.")
	c.Flags().DurationVar(&f.timeout, "timeout", timeout, "How long to wait.")
}

type newHost struct {
	spec     v1alpha1.WindowsInstanceSpec
	name     string
	instance bool
}

func add(s *session.Session) *cobra.Command {
	a := &action{s: s}
	var h newHost
	var w waitFlags
	c := &cobra.Command{
		Use:   "add ADDRESS...",
		Short: "Add hosts and wait until they are Ready nodes",
		Long: "Add hosts by IPv4 address or DNS name: as entries of ConfigMap windows-instances, or as WindowsInstances (with --instance, or with a\n" +
			"flag that an entry cannot express). Wait until they are Ready nodes, and exit at the first cause that blocks one.",
		Example: "  kubectl windows add 10.1.42.1 10.1.42.2 --username Administrator\n  kubectl windows add 10.1.42.3 --port 2222 --hostname win-3",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 1 && (h.name != "" || h.spec.HostKey != "" || h.spec.Hostname != "") {
				return session.Failf(session.CodeUsage, "%s requires addresses, and only one with --name, --hostname or --host-key", c.CommandPath())
			}
			if err := a.add(c.Context(), h, args); err != nil || !w.wait {
				return err
			}
			return a.waitReady(c.Context(), w.timeout, args)
		},
	}
	c.Flags().StringVarP(&h.spec.Username, "username", "u", "Administrator", "Account in the Administrators group of the host.")
	c.Flags().Int32Var(&h.spec.Port, "port", 22, "Port of the host's SSH server. A port other than 22 creates a WindowsInstance.")
	c.Flags().StringVar(&h.spec.Hostname, "hostname", "", "Name to give the host. Creates a WindowsInstance.")
	c.Flags().StringVar(&h.spec.HostKey, "host-key", "", "SSH host key that the host must present, as printed by ssh-keyscan, without the host name. Creates a WindowsInstance.")
	c.Flags().StringVar(&h.name, "name", "", "Name of the WindowsInstance. Defaults to the address. Creates a WindowsInstance.")
	c.Flags().BoolVar(&h.instance, "instance", false, "Create a WindowsInstance instead of an entry of ConfigMap windows-instances.")
	w.add(c, "the hosts are Ready nodes", 30*time.Minute)
	return c
}

func (a *action) add(ctx context.Context, h newHost, addresses []string) error {
	if _, err := a.read(ctx); err != nil {
		return err
	}
	for _, address := range addresses {
		if known, found := a.fleet.Find(address); found {
			return session.Failf(session.CodeFailed, "host %s already exists: WindowsInstance %s, %s", address, known.Name, known.State)
		}
	}
	if h.instance || h.name != "" || h.spec.Port != 22 || h.spec.Hostname != "" || h.spec.HostKey != "" {
		return a.addInstances(ctx, h, addresses)
	}
	return a.addEntries(ctx, h.spec.Username, addresses)
}

func (a *action) addInstances(ctx context.Context, h newHost, addresses []string) error {
	for _, address := range addresses {
		name := cmp.Or(h.name, strings.ToLower(address))
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}, Spec: h.spec}
		i.Spec.Address = address
		if err := a.Create(ctx, i); err != nil {
			return session.Explain(err, "creating WindowsInstance "+i.Name)
		}
		fmt.Fprintf(a.s.Out, "%s created\n", resourceName(i.Name))
	}
	return nil
}

func (a *action) addEntries(ctx context.Context, username string, addresses []string) error {
	cm := &corev1.ConfigMap{}
	err := a.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: api.InstancesConfigMap}, cm)
	if client.IgnoreNotFound(err) != nil {
		return session.Explain(err, "reading ConfigMap "+api.InstancesConfigMap)
	}
	missing := err != nil
	previous := cm.DeepCopy()
	cm.Namespace, cm.Name = a.namespace, api.InstancesConfigMap
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	for _, address := range addresses {
		cm.Data[address] = "username=" + username
	}
	if missing {
		err = a.Create(ctx, cm)
	} else {
		err = a.Patch(ctx, cm, client.MergeFrom(previous))
	}
	if err != nil {
		return session.Explain(err, "writing ConfigMap "+api.InstancesConfigMap)
	}
	for _, address := range addresses {
		fmt.Fprintf(a.s.Out, "configmap/%s entry %s added\n", api.InstancesConfigMap, address)
	}
	return nil
}

func (a *action) waitReady(ctx context.Context, timeout time.Duration, addresses []string) error {
	w := &waiter{s: a.s, timeout: timeout}
	return w.until(ctx, func(f fleetstatus.Fleet) (bool, error) {
		ready := 0
		for _, address := range addresses {
			h, found := f.Find(address)
			if !found {
				if err := refusedEntry(w, f, address); err != nil {
					return false, err
				}
				continue
			}
			w.print(h)
			if h.State == fleetstatus.Ready {
				ready++
			} else if err := w.blockingError(h); err != nil {
				return false, err
			}
		}
		return ready == len(addresses), nil
	})
}

// refusedEntry returns the problem of an entry that got no instance.
func refusedEntry(w *waiter, f fleetstatus.Fleet, address string) error {
	for _, p := range f.Problems {
		if strings.HasPrefix(p.Object, "ConfigMap ") && strings.Contains(p.Message, address) {
			return w.blockingError(fleetstatus.Host{Name: address, Problems: []fleetstatus.Problem{p}})
		}
	}
	return nil
}

func remove(s *session.Session) *cobra.Command {
	a := &action{s: s}
	var w waitFlags
	c := &cobra.Command{
		Use:   "remove HOST...",
		Short: "Remove hosts from the cluster and wait until they have left",
		Long: "Remove hosts from where they were added: delete their entries of ConfigMap windows-instances, or their WindowsInstances. Within the\n" +
			"budget, the operator drains the nodes and removes everything it installed. Wait until the hosts have left, and show what they wait for.\n\n" +
			"To remove the host of a Machine, delete the Machine.",
		Example:           "  kubectl windows remove win-1\n  kubectl windows remove 10.1.42.1 --yes --wait=false",
		Args:              requireHosts,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.checked(c.Context(), args, func(h fleetstatus.Host) error {
				if h.Machine != "" {
					return session.Failf(session.CodeFailed, "host %s belongs to Machine %s: scale down its MachineSet, or delete the Machine", h.Name, h.Machine)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := a.confirm("Drain " + strings.Join(args, ", ") + " and remove everything the operator installed there?"); err != nil {
				return err
			}
			for _, h := range hosts {
				if err := a.remove(c.Context(), h); err != nil {
					return err
				}
			}
			if !w.wait {
				return nil
			}
			return a.waitRemoved(c.Context(), w.timeout, hosts)
		},
	}
	a.addYes(c)
	w.add(c, "the hosts have left", time.Hour)
	return c
}

func (a *action) remove(ctx context.Context, h fleetstatus.Host) error {
	if h.State == fleetstatus.Leaving {
		return nil
	}
	i, err := a.instance(ctx, h)
	if err != nil {
		return err
	}
	if h.Source != api.SourceConfigMap {
		err := a.Delete(ctx, i, client.Preconditions{UID: &i.UID})
		if err == nil {
			fmt.Fprintf(a.s.Out, "%s is being removed\n", resourceName(h.Name))
		}
		return session.Explain(client.IgnoreNotFound(err), "deleting WindowsInstance "+h.Name)
	}
	cm := &corev1.ConfigMap{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: api.InstancesConfigMap}, cm); err != nil {
		return session.Explain(err, "reading ConfigMap "+api.InstancesConfigMap)
	}
	previous := cm.DeepCopy()
	for key := range cm.Data {
		if strings.EqualFold(strings.TrimSuffix(key, "."), strings.TrimSuffix(i.Spec.Address, ".")) {
			delete(cm.Data, key)
		}
	}
	if len(cm.Data) == len(previous.Data) {
		return session.Failf(session.CodeFailed, "ConfigMap %s has no entry %s; if the host is not being removed, delete WindowsInstance %s", api.InstancesConfigMap, i.Spec.Address, h.Name)
	}
	if err := a.Patch(ctx, cm, client.MergeFrom(previous)); err != nil {
		return session.Explain(err, "writing ConfigMap "+api.InstancesConfigMap)
	}
	fmt.Fprintf(a.s.Out, "configmap/%s entry %s removed\n", api.InstancesConfigMap, i.Spec.Address)
	return nil
}

func (a *action) waitRemoved(ctx context.Context, timeout time.Duration, hosts []fleetstatus.Host) error {
	w := &waiter{s: a.s, timeout: timeout}
	removed := map[string]bool{}
	return w.until(ctx, func(f fleetstatus.Fleet) (bool, error) {
		for _, h := range hosts {
			i := slices.IndexFunc(f.Hosts, func(known fleetstatus.Host) bool { return known.Name == h.Name })
			switch {
			case i >= 0:
				w.print(f.Hosts[i])
			case !removed[h.Name]:
				removed[h.Name] = true
				fmt.Fprintf(a.s.Out, "%s has left\n", h.Name)
			}
		}
		return len(removed) == len(hosts), nil
	})
}
