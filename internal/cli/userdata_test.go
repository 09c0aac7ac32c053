package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOld"

func TestUserDataIsSecretForClusterAPI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(file, []byte(publicKey+" operator@example.com\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for platform, begins := range map[string]string{"azure": "<powershell>\n", "none": "<powershell>\n", "gcp": "#"} {
		r := clitest.New(t).Run(t, "", "userdata", "--public-key", file, "--platform", platform, "--allow-from", "10.0.0.0/16,10.1.0.0/16")
		var secret corev1.Secret
		if err := yaml.UnmarshalStrict([]byte(r.Out), &secret); err != nil || r.Code != session.CodeOK {
			t.Fatalf("%s: exit code %d, %v: %s", platform, r.Code, err, r.Err)
		}
		script := secret.StringData["value"]
		if secret.Kind != "Secret" || secret.Name != "windows-user-data" || secret.Type != "cluster.x-k8s.io/secret" || !strings.HasPrefix(script, begins) ||
			!strings.Contains(script, "'"+publicKey+"'") || strings.Contains(script, "operator@") || !strings.Contains(script, "'10.1.0.0/16'") {
			t.Errorf("%s: the Secret is\n%s", platform, r.Out)
		}
	}
}

func TestUserDataRejectsInvalidKey(t *testing.T) {
	const private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA\n"
	files := map[string]string{}
	for name, text := range map[string]string{"good": publicKey, "private": private, "empty": "\n", "program": publicKey + "'; Restart-Computer; '\n$(Restart-Computer) x"} {
		files[name] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"no file":             {"--platform", "aws"},
		"a file that is gone": {"--platform", "aws", "--public-key", files["good"] + "x"},
		"no platform":         {"--public-key", files["good"]},
		"another platform":    {"--platform", "openstack", "--public-key", files["good"]},
		"a private key":       {"--platform", "aws", "--public-key", files["private"]},
		"an empty file":       {"--platform", "aws", "--public-key", files["empty"]},
		"a program":           {"--platform", "aws", "--public-key", files["program"]},
		"no range":            {"--platform", "aws", "--public-key", files["good"], "--allow-from", "everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.New(t).Run(t, "", append([]string{"userdata"}, args...)...)
			if r.Code != session.CodeUsage || r.Out != "" || strings.Contains(r.Err, "b3Blbn") || strings.Contains(r.Err, "Restart") {
				t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
			}
		})
	}
}
