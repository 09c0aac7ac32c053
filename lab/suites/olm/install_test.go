//go:build linux

package olm_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	root     = "../../.."
	operator = "windows-machine-config-operator"
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) { lab.RunTests(m) }

// place is a cluster in which OLM is to install the operator.
type place struct {
	*testenv.Env
	t    *testing.T
	tool string   // the program behind make bundle catalog
	out  string   // what it writes
	docs examples // of docs/install-olm.md
}

// TestInstallation installs the operator from its catalog by the commands of docs/install-olm.md, joins hosts through its pod, and installs
// the next version over it.
func TestInstallation(t *testing.T) {
	if err := cmp.Or(lab.CanRunWindows(), lab.CanRunLinuxNodes()); err != nil {
		t.Skip("SKIPPED:", err)
	}
	p := &place{t: t, out: t.TempDir(), docs: readExamples(t)}
	p.tool = filepath.Join(p.out, "bundle")
	must(t, lab.BuildProgram(t.Context(), filepath.Join(root, "release"), "./bundle/cmd", p.tool, lab.BuildOptions{}, os.Stderr))
	env := testenv.Start(t, testenv.Options{WineHosts: 2, Pod: true, OpenShift: "None", Install: p.install})
	must(t, env.Configure(t.Context()))
	must(t, env.Announce(t.Context(), env.Hosts()...))
	p.expectReady()
	t.Run("the policies of hosts are in force", func(t *testing.T) { p.in(t).checkPolicies() })
	t.Run("new Machines get their user data", func(t *testing.T) { p.in(t).checkUserData() })
	t.Run("what is copied of Kubernetes' roles is right", func(t *testing.T) { p.in(t).checkKubernetesRoles() })
	t.Run("the kinds have examples that are valid", func(t *testing.T) { p.in(t).checkKindExamples() })
	t.Run("people can do what the table says", func(t *testing.T) { p.in(t).checkPeople() })
	t.Run("a joining host stops no upgrade", func(t *testing.T) { p.in(t).checkJoiningHost() })
	t.Run("opm reads the bundle as the catalog has it", func(t *testing.T) { p.in(t).checkCatalog() })
	t.Run("it is upgradeable", func(t *testing.T) { p.in(t).expectUpgradeable("0.1.0", metav1.ConditionTrue) })
	t.Run("the bundle's permissions suffice", func(t *testing.T) { p.in(t).checkRights() })
	// Each of these needs what the one before it leaves.
	for _, step := range []struct {
		name string
		do   func(*place)
	}{
		{"the catalog comes back with its node", (*place).rebootNode},
		{"the next version goes over it", (*place).upgrade},
		{"a faulty version is refused, and replaced by the next", (*place).faulty},
		{"the permissions sufficed", (*place).checkRights},
		{"removal leaves nothing", (*place).removal},
		{"it can be installed again", (*place).again},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(p.in(t)) }) {
			return
		}
	}
}

// must ends a test that cannot go on after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkRights looks for what the operator was refused, in the log of its pod.
func (p *place) checkRights() {
	p.t.Helper()
	for line := range strings.Lines(p.Pod.Log(p.t.Context())) {
		if strings.Contains(line, "is forbidden") {
			p.t.Errorf("the operator lacks a permission: %s", line)
		}
	}
}

func (p *place) in(t *testing.T) *place {
	q := *p
	q.t = t
	return &q
}

// install follows "Installing with the CLI" of docs/install-olm.md, with the catalog that the tag of the channel names.
func (p *place) install(ctx context.Context, env *testenv.Env) error {
	p.Env = env
	if err := errors.Join(p.installOLM(ctx), p.release(ctx, "0.1.0", "")); err != nil {
		return err
	}
	began := time.Now()
	if err := p.subscribe(ctx, channelTag); err != nil {
		return err
	}
	if err := p.waitForPhase(ctx, "0.1.0", "Succeeded"); err != nil {
		return err
	}
	fmt.Printf("install.seconds_olm %.1f s\n", time.Since(began).Seconds())
	return nil
}

// subscribe applies the objects of the document's installation, with the catalog that a tag names.
func (p *place) subscribe(ctx context.Context, tag string) error {
	objects := append(p.catalogOf(tag), p.docs.under("## Installing with the CLI")...)
	if len(objects) != 4 {
		return fmt.Errorf("docs/install-olm.md has %d objects for the installation, want CatalogSource, Namespace, OperatorGroup and Subscription", len(objects))
	}
	return manifest.ApplyObjects(ctx, p.config(), objects)
}

func (p *place) config() *rest.Config { return p.Lab.ControlPlane.RESTConfig() }

// release builds the bundle of a version, and its catalog on that of a version before, as make catalog does, and pushes them to where the
// documents expect the catalog of version 0.1.0.
func (p *place) release(ctx context.Context, version, previous string, options ...string) error {
	registry := p.Pod.Registry().Address
	digest, err := p.digest(ctx, testenv.OperatorRepository, "v"+version)
	if err != nil {
		return err
	}
	const team = "/windows-machine-config/"
	args := []string{"--deploy", filepath.Join(root, "deploy"), "--version", version, "--image", testenv.OperatorRepository + "@" + digest,
		"--created", "2026-01-01T00:00:00Z", "--out", filepath.Join(p.out, version), "--catalog", "--push", "--plain-http",
		"--bundle-repository", registry + team + "wmco-bundle", "--catalog-repository", registry + team + "wmco-catalog"}
	if previous != "" {
		args = append(args, "--previous", filepath.Join(p.out, previous, "catalog", "catalog.yaml"))
	}
	if out, err := exec.CommandContext(ctx, p.tool, append(args, options...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the bundle: %w: %s", err, out)
	}
	return nil
}

// digest queries the registry for the digest of an image.
func (p *place) digest(ctx context.Context, name, tag string) (string, error) {
	_, repository, _ := strings.Cut(name, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+p.Pod.Registry().Address+"/v2/"+repository+"/manifests/"+tag, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/vnd.oci.image.index.v1+json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	digest := answer.Header.Get("Docker-Content-Digest")
	if answer.StatusCode != http.StatusOK || digest == "" {
		return "", fmt.Errorf("asking for image %s:%s: %s", name, tag, answer.Status)
	}
	return digest, nil
}

// A csvStatus is the status of a ClusterServiceVersion.
type csvStatus struct {
	Phase   string `json:"phase"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// status reads the status of a version's ClusterServiceVersion.
func (p *place) status(ctx context.Context, version string) (status csvStatus, err error) {
	csv := &unstructured.Unstructured{}
	csv.SetAPIVersion("operators.coreos.com/v1alpha1")
	csv.SetKind("ClusterServiceVersion")
	if err := p.Client.Get(ctx, ours(operator+".v"+version), csv); err != nil {
		return status, err
	}
	content, _, err := unstructured.NestedMap(csv.Object, "status")
	if err != nil {
		return status, err
	}
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
}

// waitForPhase waits until OLM has brought a version to a phase.
func (p *place) waitForPhase(ctx context.Context, version, phase string) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience(patience))
	defer cancel()
	for {
		status, err := p.status(ctx, version)
		if err == nil && status.Phase == phase {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until version %s is %s: %+v (%w)\n%s", version, phase, status, err, p.olmSays(context.WithoutCancel(ctx)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ours(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: api.DefaultNamespace, Name: name}
}

func (p *place) eventually(what string, check func(context.Context) (missing string)) {
	p.t.Helper()
	testenv.Eventually(p.t, patience, what, check)
}

func (p *place) expectReady() {
	p.t.Helper()
	p.eventually("all hosts are Ready nodes", func(ctx context.Context) string {
		var list v1alpha1.WindowsInstanceList
		if err := p.Client.List(ctx, &list); err != nil {
			return err.Error()
		}
		for _, i := range list.Items {
			if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
				return fmt.Sprintf("%s has conditions %+v", i.Name, i.Status.Conditions)
			}
		}
		if len(list.Items) != len(p.Hosts()) {
			return fmt.Sprintf("there are %d instances", len(list.Items))
		}
		return ""
	})
}

// checkPolicies deletes one that the operator applied, and expects that it comes back.
func (p *place) checkPolicies() {
	const name = "windows-instance-config-daemon"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(p.t, p.Client.Delete(p.t.Context(), policy))
	began := time.Now()
	p.eventually("the policy is there again", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, types.NamespacedName{Name: name}, policy); err != nil {
			return err.Error()
		}
		return ""
	})
	p.t.Logf("a policy that was deleted was back after %s", time.Since(began).Round(time.Millisecond))
	p.eventually("the policies are in force", func(ctx context.Context) string {
		var config v1alpha1.WindowsConfig
		if err := p.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
			return err.Error()
		}
		got := meta.FindStatusCondition(config.Status.Conditions, api.ConditionPolicies)
		if got == nil || got.Status != metav1.ConditionTrue || !strings.Contains(got.Message, "apply deploy/limits") {
			return fmt.Sprintf("the condition is %+v, want True, and what limits the operator missing", got)
		}
		return ""
	})
	err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: operator + "-nodes"}, policy)
	if !apierrors.IsNotFound(err) {
		p.t.Errorf("what limits the operator was applied by it (%v)", err)
	}
}

// checkUserData expects what the operator may create with deploy/openshift, which the lab has applied.
func (p *place) checkUserData() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: api.UserDataSecret}}
	p.eventually("the operator fills the user data of Machines", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		if len(secret.Data["userData"]) == 0 {
			return "it is empty"
		}
		return ""
	})
}

// checkKubernetesRoles compares the rules that a bundle has in place of references with the API server's roles.
func (p *place) checkKubernetesRoles() {
	var roles rbacv1.ClusterRoleList
	must(p.t, p.Client.List(p.t.Context(), &roles, client.MatchingLabels{"olm.owner": operator + ".v0.1.0"}))
	for _, name := range []string{"system:auth-delegator", "system:node-bootstrapper"} {
		var want rbacv1.ClusterRole
		must(p.t, p.Client.Get(p.t.Context(), types.NamespacedName{Name: name}, &want))
		for _, rule := range want.Rules {
			found := false
			for _, role := range roles.Items {
				for _, got := range role.Rules {
					found = found || reflect.DeepEqual(got, rule)
				}
			}
			if !found {
				p.t.Errorf("no role of the bundle has rule %+v of %s", rule, name)
			}
		}
	}
}

// checkKindExamples creates what consoles offer, as a trial.
func (p *place) checkKindExamples() {
	csv := &unstructured.Unstructured{}
	csv.SetAPIVersion("operators.coreos.com/v1alpha1")
	csv.SetKind("ClusterServiceVersion")
	must(p.t, p.Client.Get(p.t.Context(), ours(operator+".v0.1.0"), csv))
	var all []map[string]any
	var first map[string]any
	if err := errors.Join(json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &all),
		json.Unmarshal([]byte(csv.GetAnnotations()["operatorframework.io/initialization-resource"]), &first)); err != nil {
		p.t.Fatal(err)
	}
	for _, content := range append(all, first) {
		o := &unstructured.Unstructured{Object: content}
		err := p.Client.Create(p.t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		if client.IgnoreAlreadyExists(err) != nil {
			p.t.Errorf("the example of kind %s: %v", o.GetKind(), err)
		}
	}
}
