package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/windows-machine-config/wmco/release/manifests"
)

const deploy = "../../deploy"

func TestObjectsAreInCreationOrder(t *testing.T) {
	objects, err := manifests.Load(deploy, manifests.Base)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		if len(kinds) == 0 || kinds[len(kinds)-1] != o.GetKind() {
			kinds = append(kinds, o.GetKind())
		}
	}
	want := "Namespace CustomResourceDefinition ServiceAccount ClusterRole ClusterRoleBinding Role RoleBinding " +
		"ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding Service Deployment"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("the kinds are\n%s, want\n%s", got, want)
	}
}

func TestOpenShiftExtendsBase(t *testing.T) {
	base, err := manifests.Load(deploy, manifests.Base)
	if err != nil {
		t.Fatal(err)
	}
	all, err := manifests.Load(deploy, manifests.Base, manifests.OpenShift, manifests.ClusterAPI)
	if err != nil {
		t.Fatal(err)
	}
	added := map[string]bool{}
	for _, o := range all {
		added[manifests.Key(o)] = true
	}
	for _, o := range base {
		delete(added, manifests.Key(o))
	}
	if len(added) != 6 || !added["Role/openshift-cluster-api/windows-machine-config-operator"] {
		t.Errorf("OpenShift adds %v, want a Role and a RoleBinding in each of three namespaces", added)
	}
}

func TestFindReturnsTypedObject(t *testing.T) {
	objects, err := manifests.Load(deploy, manifests.Base, manifests.OpenShift)
	if err != nil {
		t.Fatal(err)
	}
	const operator = "windows-machine-config-operator"
	deployment, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", operator)
	if err != nil || !found || deployment.Spec.Template.Spec.Containers[0].Name != "manager" {
		t.Errorf("Find() = %v, %v, %v; want the operator's Deployment", deployment.Name, found, err)
	}
	if _, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", "other"); found || err != nil {
		t.Errorf("Find() = %v, %v for a name that does not exist", found, err)
	}
	if _, _, err := manifests.Find[rbacv1.Role](objects, "Role", operator); err == nil {
		t.Error("Find() returned one of several Roles")
	}
}

func TestUnreadableFoldersAreReported(t *testing.T) {
	double := t.TempDir()
	write(t, filepath.Join(double, "kustomization.yaml"), "resources: [a.yaml]\n")
	write(t, filepath.Join(double, "a.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	for name, test := range map[string]struct {
		dir     string
		parts   []manifests.Part
		wantErr string
	}{
		"no part":      {deploy, nil, "no part is selected"},
		"no folder":    {"missing", []manifests.Part{manifests.Base}, "building kustomize folder missing"},
		"a part twice": {double, []manifests.Part{manifests.Base, manifests.Base}, "ConfigMap/a is in part . and in part ."},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := manifests.Load(test.dir, test.parts...); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
