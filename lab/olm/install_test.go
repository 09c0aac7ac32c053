//go:build linux

package olm_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/manifest"
	"github.com/windows-machine-config/wmco/lab/olm"
	"github.com/windows-machine-config/wmco/lab/prometheusoperator"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	root     = "../.."
	operator = "windows-machine-config-operator"
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if err := lab.PreferMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// place is a cluster in which OLM is to install the operator.
type place struct {
	*testenv.Env
	t       *testing.T
	cluster *olm.Cluster
	tool    string   // the program behind make bundle catalog
	out     string   // what it writes
	docs    examples // of docs/install-olm.md
}

// TestInstallation installs the operator from its catalog by the commands of docs/install-olm.md, joins hosts through its pod, and installs
// the next version over it.
func TestInstallation(t *testing.T) {
	if err := cmp.Or(lab.CanRunWindows(), lab.CanRunLinuxNodes()); err != nil {
		t.Skip("SKIPPED:", err)
	}
	p := &place{t: t, out: t.TempDir(), docs: readExamples(t)}
	p.tool = filepath.Join(p.out, "bundle")
	if err := lab.BuildOwn(t.Context(), filepath.Join(root, "release"), "./bundle/cmd", p.tool, lab.BuildOptions{}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Open(t.Context(), testenv.Options{WineHosts: 2, Pod: true, OpenShift: "None", Log: os.Stderr, Install: p.install})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Diagnosis())
		}
		env.Close()
	})
	if err := env.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Announce(t.Context(), env.Hosts()...); err != nil {
		t.Fatal(err)
	}
	p.expectReady()
	t.Run("the policies of hosts are in force", func(t *testing.T) { p.in(t).checkPolicies() })
	t.Run("new Machines get their user data", func(t *testing.T) { p.in(t).checkUserData() })
	t.Run("what is copied of Kubernetes' roles is right", func(t *testing.T) { p.in(t).checkKubernetesRoles() })
	t.Run("the kinds have examples that are valid", func(t *testing.T) { p.in(t).checkKindExamples() })
	t.Run("it is upgradeable", func(t *testing.T) { p.in(t).expectUpgradeable(operator+".v0.1.0", metav1.ConditionTrue) })
	t.Run("the bundle's permissions suffice", func(t *testing.T) { p.in(t).checkRights() })
	t.Run("the next version goes over it", func(t *testing.T) { p.in(t).upgrade() })
	p.checkRights()
	t.Run("removal leaves nothing", func(t *testing.T) { p.in(t).removal() })
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

// install does what docs/install-olm.md says under "Installing with the CLI", with the catalog of the first version.
func (p *place) install(ctx context.Context, env *testenv.Env) error {
	p.Env = env
	config := env.Lab.ControlPlane.RESTConfig()
	p.cluster = &olm.Cluster{Config: config, Client: env.Client, Images: olm.Images{Registry: env.Pod.Registry().Address}}
	monitoringKinds, err := prometheusoperator.Oldest.Definitions(ctx, "../..", "servicemonitors", "prometheusrules") // every OpenShift has them
	if err != nil {
		return err
	}
	marketplace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-marketplace"}}
	if err := errors.Join(env.Client.Create(ctx, marketplace), olm.InstallKinds(ctx, config), manifest.ApplyObjects(ctx, config, monitoringKinds), p.release(ctx, "0.1.0")); err != nil {
		return err
	}
	for _, namespace := range []string{"openshift-config", "openshift-machine-api", "openshift-cluster-api"} { // deploy/openshift
		if err := env.Client.DeleteAllOf(ctx, &rbacv1.RoleBinding{}, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	objects := append(p.docs.under("Before you begin"), p.docs.under("Installing with the CLI")...)
	if len(objects) != 4 {
		return fmt.Errorf("docs/install-olm.md has %d objects for the installation, want CatalogSource, Namespace, OperatorGroup and Subscription", len(objects))
	}
	if err := manifest.ApplyObjects(ctx, config, objects); err != nil {
		return err
	}
	return p.follow(ctx, "0.1.0")
}

// release builds the bundle of a version, and its catalog on that of the version before, as make catalog does, and pushes them to where the
// documents expect the catalog of version 0.1.0.
func (p *place) release(ctx context.Context, version string) error {
	registry := p.Pod.Registry().Address
	digest, err := p.cluster.Images.Digest(ctx, testenv.OperatorRepository+":v"+version)
	if err != nil {
		return err
	}
	const team = "/windows-machine-config/"
	args := []string{"--deploy", filepath.Join(root, "deploy"), "--version", version, "--image", testenv.OperatorRepository + "@" + digest.String(),
		"--created", "2026-01-01T00:00:00Z", "--out", filepath.Join(p.out, version), "--catalog", "--push", "--plain-http",
		"--bundle-repository", registry + team + "wmco-bundle", "--catalog-repository", registry + team + "wmco-catalog"}
	if version != "0.1.0" {
		args = append(args, "--previous", filepath.Join(p.out, "0.1.0", "catalog", "catalog.yaml"))
	}
	if out, err := exec.CommandContext(ctx, p.tool, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the bundle: %w: %s", err, out)
	}
	return nil
}

// follow has the cluster do what the Subscription says, and expects a version.
func (p *place) follow(ctx context.Context, version string) error {
	b, err := p.cluster.Follow(ctx, ours(operator))
	if err == nil && b.Name() != operator+".v"+version {
		err = fmt.Errorf("%s was installed, want version %s", b.Name(), version)
	}
	return err
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
	if err := p.Client.Delete(p.t.Context(), policy); err != nil {
		p.t.Fatal(err)
	}
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
		is := meta.FindStatusCondition(config.Status.Conditions, api.ConditionPolicies)
		if is == nil || is.Status != metav1.ConditionTrue || !strings.Contains(is.Message, "apply deploy/limits") {
			return fmt.Sprintf("the condition is %+v, want True, and what limits the operator missing", is)
		}
		return ""
	})
	err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: operator + "-nodes"}, policy)
	if !apierrors.IsNotFound(err) {
		p.t.Errorf("what limits the operator was applied by it (%v)", err)
	}
}

// checkUserData creates the empty Secret of the document, which the operator may not create, and expects that it is filled.
func (p *place) checkUserData() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: api.UserDataSecret}}
	if err := p.Client.Create(p.t.Context(), secret); err != nil {
		p.t.Fatal(err)
	}
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
	if err := p.Client.List(p.t.Context(), &roles, client.MatchingLabels{"olm.owner": operator + ".v0.1.0"}); err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"system:auth-delegator", "system:node-bootstrapper"} {
		var want rbacv1.ClusterRole
		if err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: name}, &want); err != nil {
			p.t.Fatal(err)
		}
		for _, rule := range want.Rules {
			found := false
			for _, role := range roles.Items {
				for _, has := range role.Rules {
					found = found || reflect.DeepEqual(has, rule)
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
	if err := p.Client.Get(p.t.Context(), ours(operator+".v0.1.0"), csv); err != nil {
		p.t.Fatal(err)
	}
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

// examples are the objects of a document, by the heading that they are below.
type examples map[string][]*unstructured.Unstructured

func readExamples(t *testing.T) examples {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "install-olm.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := examples{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, block := range regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```").FindAllStringSubmatch(section, -1) {
			for document := range strings.SplitSeq(block[1], "---\n") {
				o := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
					t.Fatalf("%v in:\n%s", err, document)
				}
				all[heading] = append(all[heading], o)
			}
		}
	}
	return all
}

func (e examples) under(heading string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range e[heading] {
		all = append(all, o.DeepCopy())
	}
	return all
}
