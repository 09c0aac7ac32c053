package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// rehearse returns the command that prints a copy of a Deployment for one host.
func rehearse(s *session.Session) *cobra.Command {
	var on string
	var emptyVolumes bool
	c := &cobra.Command{
		Use:   "rehearse NAMESPACE/DEPLOYMENT --on NODE",
		Short: "Print a copy of a Deployment that runs on one host only, to try it with another Windows Server",
		Long: "Print a copy of a Deployment with one pod for one Windows node, such as the first one with a newer Windows Server: with its own labels,\n" +
			"so that no Service sends it traffic, with the RuntimeClass of the node's build, and with tolerations for the node's taints. The copy\n" +
			"is otherwise like the original: it uses the same ConfigMaps, Secrets, ServiceAccount, queues and databases. A Deployment with\n" +
			"PersistentVolumeClaims is rejected unless --empty-volumes replaces them.\n\n" +
			"The command changes nothing: review the output, and apply it with kubectl apply -f -. Delete the copy in the same way.\n\n" +
			"You need permission to get the deployment and the node, and to list runtimeclasses.",
		Example: "  kubectl windows rehearse shop/web --on win-2025 | kubectl apply -f -\n" +
			"  kubectl windows rehearse shop/web --on win-2025 | kubectl delete -f -",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Count(args[0], "/") != 1 || strings.HasPrefix(args[0], "/") || strings.HasSuffix(args[0], "/") {
				return session.Failf(session.CodeUsage, "%s takes one argument, NAMESPACE/DEPLOYMENT such as shop/web; got %q", c.CommandPath(), args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if on == "" {
				return session.Failf(session.CodeUsage, "--on is required: name the Windows node that the copy is to run on")
			}
			namespace, name, _ := strings.Cut(args[0], "/")
			r, err := readRehearsal(c.Context(), s, client.ObjectKey{Namespace: namespace, Name: name}, on, emptyVolumes)
			if err != nil {
				return err
			}
			return printRehearsal(s, r)
		},
	}
	c.Flags().StringVar(&on, "on", "", "Name of the node that the copy is to run on.")
	c.Flags().BoolVar(&emptyVolumes, "empty-volumes", false, "Give the copy an empty volume for each PersistentVolumeClaim.")
	return c
}

func readRehearsal(ctx context.Context, s *session.Session, name client.ObjectKey, on string, emptyVolumes bool) (generations.Rehearsal, error) {
	var none generations.Rehearsal
	c, err := s.Client()
	if err != nil {
		return none, err
	}
	var d appsv1.Deployment
	if err := c.Get(ctx, name, &d); err != nil {
		return none, session.Explain(err, "reading Deployment "+name.String())
	}
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: on}, &node); err != nil {
		return none, session.Explain(err, "reading node "+on)
	}
	if !nodestate.IsWindows(&node) {
		return none, session.Failf(session.CodeFailed, "node %s is not a Windows node", on)
	}
	cluster := clusterReader{client: c}
	if err := cluster.classes(ctx); err != nil {
		return none, err
	}
	r, err := generations.Rehearse(&d, &node, cluster.found.Classes, emptyVolumes)
	if err != nil {
		return none, session.Failf(session.CodeFailed, "%v", err)
	}
	if node.Spec.Unschedulable {
		r.Notes = append(r.Notes, fmt.Sprintf("Node %s is cordoned: the pod waits until it is not.", on))
	}
	return r, nil
}

// printRehearsal prints the manifest, with the notes as comments.
func printRehearsal(s *session.Session, r generations.Rehearsal) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.Deployment)
	if err != nil {
		return err
	}
	delete(object, "status")
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	_, err = fmt.Fprintf(s.Out, "%s%s", b.String(), text)
	return err
}
