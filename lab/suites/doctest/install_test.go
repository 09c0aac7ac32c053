//go:build linux

package doctest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/helm"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// installation runs the story of the operator's installations.
type installation struct {
	*reader
	env   *testenv.Env
	helm3 *helm.Helm
	began time.Time // start of the measured installation
}

// TestInstallDocuments builds the operator's image as documented in the README, and installs and removes the operator in each
// documented way, with kubectl, Helm 4 and Helm 3. The operator runs from this image; a simulated host joins, and leaves before
// the operator is removed.
func TestInstallDocuments(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes())
	t.Parallel()
	i := &installation{reader: newReader(t, documents.Installing())}
	h, err := helm.New(t.Context(), i.root, t.TempDir(), os.Stderr)
	if err == nil {
		i.helm3, err = helm.New3(t.Context(), i.root, t.TempDir(), os.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	i.env = testenv.Start(t, testenv.Options{Pod: true, Install: func(ctx context.Context, env *testenv.Env) error {
		i.env = env
		if i.shell, err = env.NewShell(h.Folder()); err != nil {
			return err
		}
		i.shell.Environment = h.Environment()
		i.shell.Replace = map[string]string{
			"registry.example.com": env.Pod.Registry().Address + "/windows-machine-config", // which has tag v0.1.0 as well
			"<chart>":              "_chart/windows-machine-config-operator",
			"<namespace>":          metav1.NamespaceDefault,
		}
		i.hooks()
		return i.first(ctx)
	}})
	i.run(t)
	t.Run("failed starts are explained", i.testMistakes)
}

// hooks sets the actions between the blocks. They remove the previous installation before each documented way of installation.
func (i *installation) hooks() {
	const join = "kubectl wait -n openshift-windows-machine-config-operator "
	const leave = "kubectl delete configmap windows-instances -n openshift-windows-machine-config-operator\n" + join +
		"--for=delete --timeout=15m winst --all\nkubectl delete windowsconfig cluster\n"
	const uninstall = "helm uninstall wmco -n openshift-windows-machine-config-operator --wait\n"
	network := "kubectl apply -f - <<EOF\n{apiVersion: windowsmachineconfig.openshift.io/v1alpha1, kind: WindowsConfig, metadata: {name: cluster}, spec: {network: {" +
		labNetwork() + "}}}\nEOF\n"
	i.before = map[string]func(context.Context) error{
		"helm install wmco _chart/windows-machine-config-operator -n ": i.do("kubectl delete -k _install --wait"),
		"kubectl apply -k _install\n":                                  i.begin,
		"helm install wmco _chart/windows-machine-config-operator \\":  i.all(i.do("kubectl delete -k _install --wait"), i.begin),
		"kubectl get winst -n openshift-windows-machine-config-operator\nkubectl get windowsconfig": i.do(
			"kubectl create secret generic cloud-private-key --from-file=private-key.pem=windows-key\n" + network +
				"kubectl create configmap windows-instances --from-literal=" + i.env.UnusedAddress() + "=username=Administrator\n" +
				"for try in {1..60}; do kubectl logs deployment/windows-machine-config-operator | grep 'Join failed' && break; sleep 1; done"),
		"kubectl apply -k deploy\n": i.do(uninstall +
			"! kubectl --as=somebody apply -k deploy >refused 2>&1\ngrep 'is forbidden: User' refused\ngrep 'is forbidden: User' " + i.root + "/docs/troubleshooting.md"),
		"kubectl apply -k deploy/openshift\n": i.namespaces("openshift-machine-api", "openshift-config", "openshift-cluster-api"),
		"helm install wmco <chart>":           i.all(i.do("kubectl delete -k deploy --wait"), i.useHelm3),
		"kubectl apply -k deploy/monitoring ": func(ctx context.Context) error { return prepareMonitoring(ctx, i.env) },
	}
	i.after = map[string]func(context.Context) error{
		"helm install wmco _chart/windows-machine-config-operator -n ": i.ready,
		createKey: i.all(func(context.Context) error { return i.addHost(i.env, "readme", "10.1.42.1") }, i.do(network)),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: windows-instances": i.do(
			"until kubectl get winst 10.1.42.1 -n openshift-windows-machine-config-operator; do sleep 1; done\n" + join + "--for=condition=Ready --timeout=15m winst/10.1.42.1"),
		"$ kubectl get winst -n": i.do(leave + uninstall),
		"kubectl get winst -n openshift-windows-machine-config-operator\nkubectl get windowsconfig": i.do(leave),
		"kubectl apply -k _install\n":                                 i.measured("install.seconds_kubectl"),
		"helm install wmco _chart/windows-machine-config-operator \\": i.measured("install.seconds_helm"),
		"kubectl apply -k deploy\n":                                   i.ready,
		"helm install wmco <chart>":                                   i.all(i.ready, i.do(uninstall)),
		"helm template wmco <chart>": i.all(i.ready, i.do("helm template wmco _chart/windows-machine-config-operator -n openshift-windows-machine-config-operator "+
			"--kube-version 1.36.0 --no-hooks --set namespace.create=true | kubectl delete --wait -f -\nkubectl create namespace openshift-windows-machine-config-operator\n")),
		"apiVersion: kustomize.config.k8s.io/v1beta1\n": i.do(
			"kubectl rollout status deployment/windows-machine-config-operator -n windows --timeout=2m"),
	}
}

// all returns an action that runs actions in order.
func (i *installation) all(actions ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, do := range actions {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (i *installation) ready(ctx context.Context) error {
	_, err := i.env.Pod.WaitUntilReady(ctx)
	return err
}

func (i *installation) begin(context.Context) error {
	i.began = time.Now()
	return nil
}

// measured returns an action that waits until the operator's pod is Ready, and prints the time since the first command. The
// node has pulled the image before, in the installation of the README.
func (i *installation) measured(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := i.ready(ctx)
		i.log("%s %.1f s", name, time.Since(i.began).Seconds())
		return err
	}
}

// namespaces returns an action that creates namespaces of OpenShift.
func (i *installation) namespaces(names ...string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for _, name := range names {
			err = errors.Join(err, i.env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		return err
	}
}

// useHelm3 makes commands use Helm 3.
func (i *installation) useHelm3(ctx context.Context) error {
	i.shell.Prefer(i.helm3.Folder())
	i.shell.Environment = append(i.shell.Environment, i.helm3.Environment()...)
	return i.shell.Run(ctx, i.dir, "helm version --short | grep '^v3\\.'")
}
