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
	root        = "../../.."
	operator    = "windows-machine-config-operator"
	waitTimeout = 3 * time.Minute
)

func TestMain(m *testing.M) { lab.RunTests(m) }

// harness is a cluster in which OLM installs the operator.
type harness struct {
	*testenv.Env
	t    *testing.T
	tool string   // path of the program that make bundle catalog runs
	out  string   // folder for its output
	docs examples // objects of docs/install-olm.md
}

// TestInstallation installs the operator from its catalog with the commands of docs/install-olm.md, joins hosts, upgrades the
// operator several times, and removes it.
func TestInstallation(t *testing.T) {
	if err := cmp.Or(lab.CanRunWindows(), lab.CanRunLinuxNodes()); err != nil {
		t.Skip("SKIPPED:", err)
	}
	p := &harness{t: t, out: t.TempDir(), docs: readExamples(t)}
	p.tool = filepath.Join(p.out, "bundle")
	must(t, lab.BuildProgram(t.Context(), filepath.Join(root, "release"), "./bundle/cmd", p.tool, lab.BuildOptions{}, os.Stderr))
	env := testenv.Start(t, testenv.Options{WineHosts: 2, Pod: true, OpenShift: "None", Install: p.install})
	must(t, env.Configure(t.Context()))
	must(t, env.Announce(t.Context(), env.Hosts()...))
	p.expectReady()
	t.Run("operator applies admission policies", func(t *testing.T) { p.withT(t).checkPolicies() })
	t.Run("operator creates user data of Machines", func(t *testing.T) { p.withT(t).checkUserData() })
	t.Run("bundle copies Kubernetes' roles", func(t *testing.T) { p.withT(t).checkKubernetesRoles() })
	t.Run("examples of kinds are valid", func(t *testing.T) { p.withT(t).checkKindExamples() })
	t.Run("users have documented permissions", func(t *testing.T) { p.withT(t).checkPeople() })
	t.Run("joining host cannot block upgrades", func(t *testing.T) { p.withT(t).checkJoiningHost() })
	t.Run("opm renders the same bundle", func(t *testing.T) { p.withT(t).checkCatalog() })
	t.Run("operator is upgradeable", func(t *testing.T) { p.withT(t).expectUpgradeable("0.1.0", metav1.ConditionTrue) })
	t.Run("operator lacks no permission", func(t *testing.T) { p.withT(t).checkRights() })
	// Each of these steps depends on the previous one.
	for _, step := range []struct {
		name string
		run  func(*harness)
	}{
		{"catalog survives a reboot of its node", (*harness).rebootNode},
		{"upgrade", (*harness).upgrade},
		{"faulty version is rejected and replaced", (*harness).faultyVersion},
		{"operator lacks no permission after upgrades", (*harness).checkRights},
		{"removal leaves nothing", (*harness).removal},
		{"reinstallation", (*harness).reinstall},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(p.withT(t)) }) {
			return
		}
	}
}

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkRights searches the log of the operator for forbidden requests.
func (p *harness) checkRights() {
	p.t.Helper()
	for line := range strings.Lines(p.Pod.Log(p.t.Context())) {
		if strings.Contains(line, "is forbidden") {
			p.t.Errorf("the operator lacks a permission: %s", line)
		}
	}
}

// withT returns a copy for a subtest.
func (p *harness) withT(t *testing.T) *harness {
	q := *p
	q.t = t
	return &q
}

// install follows section "Installing with the CLI" of docs/install-olm.md, with the catalog that has the tag of the channel.
func (p *harness) install(ctx context.Context, env *testenv.Env) error {
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

// subscribe applies the objects of the documented installation, with the catalog that has the tag.
func (p *harness) subscribe(ctx context.Context, tag string) error {
	objects := append(p.catalogWithTag(tag), p.docs.under("## Installing with the CLI")...)
	if len(objects) != 4 {
		return fmt.Errorf("docs/install-olm.md has %d objects for the installation, want CatalogSource, Namespace, OperatorGroup and Subscription", len(objects))
	}
	return manifest.ApplyObjects(ctx, p.config(), objects)
}

func (p *harness) config() *rest.Config { return p.Lab.ControlPlane.RESTConfig() }

// release builds the bundle of a version and its catalog, which extends that of the previous version, like make catalog. It
// pushes both to the registry in the documented location.
func (p *harness) release(ctx context.Context, version, previous string, options ...string) error {
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
func (p *harness) digest(ctx context.Context, name, tag string) (string, error) {
	_, repository, _ := strings.Cut(name, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+p.Pod.Registry().Address+"/v2/"+repository+"/manifests/"+tag, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/vnd.oci.image.index.v1+json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	digest := response.Header.Get("Docker-Content-Digest")
	if response.StatusCode != http.StatusOK || digest == "" {
		return "", fmt.Errorf("requesting the digest of image %s:%s: %s", name, tag, response.Status)
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
func (p *harness) status(ctx context.Context, version string) (status csvStatus, err error) {
	csv := &unstructured.Unstructured{}
	csv.SetAPIVersion("operators.coreos.com/v1alpha1")
	csv.SetKind("ClusterServiceVersion")
	if err := p.Client.Get(ctx, inOperatorNamespace(operator+".v"+version), csv); err != nil {
		return status, err
	}
	content, _, err := unstructured.NestedMap(csv.Object, "status")
	if err != nil {
		return status, err
	}
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
}

// waitForPhase waits until the ClusterServiceVersion of a version has a phase.
func (p *harness) waitForPhase(ctx context.Context, version, phase string) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(waitTimeout))
	defer cancel()
	for {
		status, err := p.status(ctx, version)
		if err == nil && status.Phase == phase {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until version %s is %s: %+v (%w)\n%s", version, phase, status, err, p.diagnoseOLM(context.WithoutCancel(ctx)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func inOperatorNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: api.DefaultNamespace, Name: name}
}

func (p *harness) eventually(what string, check func(context.Context) (missing string)) {
	p.t.Helper()
	testenv.Eventually(p.t, waitTimeout, what, check)
}

func (p *harness) expectReady() {
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
			return fmt.Sprintf("got %d instances, want %d", len(list.Items), len(p.Hosts()))
		}
		return ""
	})
}

// checkPolicies deletes a policy that the operator has applied, and expects the operator to restore it.
func (p *harness) checkPolicies() {
	const name = "windows-instance-config-daemon"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(p.t, p.Client.Delete(p.t.Context(), policy))
	began := time.Now()
	p.eventually("the operator restores the policy", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, types.NamespacedName{Name: name}, policy); err != nil {
			return err.Error()
		}
		return ""
	})
	p.t.Logf("the operator restored a deleted policy after %s", time.Since(began).Round(time.Millisecond))
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
		p.t.Errorf("got error %v for a policy that limits the operator, want not found", err)
	}
}

// checkUserData expects the user data that the operator creates with the permissions of deploy/openshift, which the lab has applied.
func (p *harness) checkUserData() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: api.UserDataSecret}}
	p.eventually("the operator creates the user data of Machines", func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		if len(secret.Data["userData"]) == 0 {
			return "the user data is empty"
		}
		return ""
	})
}

// checkKubernetesRoles compares the rules that the bundle copies from Kubernetes' roles with these roles. A bundle cannot
// reference roles.
func (p *harness) checkKubernetesRoles() {
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
				p.t.Errorf("found no role of the bundle with rule %+v of %s", rule, name)
			}
		}
	}
}

// checkKindExamples creates the examples that consoles show, as a dry run.
func (p *harness) checkKindExamples() {
	csv := &unstructured.Unstructured{}
	csv.SetAPIVersion("operators.coreos.com/v1alpha1")
	csv.SetKind("ClusterServiceVersion")
	must(p.t, p.Client.Get(p.t.Context(), inOperatorNamespace(operator+".v0.1.0"), csv))
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
			p.t.Errorf("creating the example of kind %s: %v", o.GetKind(), err)
		}
	}
}
