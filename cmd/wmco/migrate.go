package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/migration"
	"github.com/windows-machine-config/wmco/payload"
)

const migrateTimeout = time.Minute

// errBlocked means that the administrator must correct something before the operator can take over.
var errBlocked = errors.New("the migration is blocked")

// migrate is "wmco migrate --check": it checks a cluster that the original operator manages.
func migrate(ctx context.Context, args []string, w io.Writer) error {
	var kubeconfig, namespace, payloadDir string
	var check bool
	set := flag.NewFlagSet("wmco migrate", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprint(set.Output(), "wmco migrate --check checks a migration from the original Windows Machine Config Operator, and changes nothing. The exit code\n"+
			"is 0 if nothing blocks the migration, 3 if something does, and 1 if the cluster cannot be read.\n\nFlags:\n")
		set.PrintDefaults()
	}
	set.BoolVar(&check, "check", false, "required: the operator takes over nodes automatically once it is installed")
	set.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; defaults to the variable KUBECONFIG, or the pod's ServiceAccount")
	set.StringVar(&namespace, "namespace", api.DefaultNamespace, "`namespace` of the original operator, and of this one")
	set.StringVar(&payloadDir, "payload-dir", "/payload", "`folder` with payload.json, which lists the versions of Kubernetes that this operator supports")
	if err := set.Parse(args); err != nil {
		return err
	}
	if !check || set.NArg() > 0 {
		return errors.New("use: wmco migrate --check")
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	current, err := readForMigration(ctx, kubeconfig, namespace, payloadDir)
	if err != nil {
		return fmt.Errorf("reading the cluster: %w", err)
	}
	findings := migration.Assess(current)
	if err := migration.Write(w, findings); err != nil {
		return err
	}
	if migration.Blocked(findings) {
		return errBlocked
	}
	return nil
}

func readForMigration(ctx context.Context, kubeconfig, namespace, payloadDir string) (current migration.Cluster, err error) {
	content, err := payload.Open(payloadDir)
	if err != nil {
		return current, err
	}
	config, err := restConfig(kubeconfig)
	if err != nil {
		return current, err
	}
	scheme := utilruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return current, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return current, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return current, err
	}
	reported, err := clients.Discovery().ServerVersion()
	if err != nil {
		return current, err
	}
	server, err := kubeversions.Server(reported.GitVersion, reported.EmulationMajor, reported.EmulationMinor)
	if err != nil {
		return current, err
	}
	return migration.Read(ctx, reader, namespace, kubeversions.Of(version(), content.Manifest), server)
}
