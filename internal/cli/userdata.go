package cli

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/operator/userdata"
)

// Cluster API's format of bootstrap data (sigs.k8s.io/cluster-api, api/core/v1beta2).
const (
	bootstrapSecretType = corev1.SecretType("cluster.x-k8s.io/secret")
	bootstrapKey        = "value"
)

// maxPublicKeys is the size of the largest file with public keys that is read, in bytes.
const maxPublicKeys = 64 << 10

type userDataOptions struct {
	publicKey, platform string
	allowFrom           []string
}

// userData returns the command that prints the Secret from which Cluster API starts Windows Machines.
func userData(s *session.Session) *cobra.Command {
	var o userDataOptions
	c := &cobra.Command{
		Use:   "userdata --public-key FILE",
		Short: "Print the user data Secret for Windows Machines of Cluster API",
		Long: "Print Secret " + api.UserDataSecret + " for spec.bootstrap.dataSecretName of Windows Machines of Cluster API. Its script lets the operator log in\n" +
			"to a new Machine. It contains public keys only. The command does not contact a cluster: apply the output in the namespace of the\n" +
			"Machines.\n\n" +
			"On OpenShift, you do not need this command: the operator writes the Secret itself.",
		Example: "  kubectl windows userdata --public-key windows-key.pub --platform azure | kubectl apply -n machines -f -",
		Args:    rejectArguments,
		RunE: func(*cobra.Command, []string) error {
			secret, err := o.make()
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(secret)
			if err == nil {
				_, err = s.Out.Write(text)
			}
			return err
		},
	}
	c.Flags().StringVar(&o.publicKey, "public-key", "", "File with the public half of the operator's SSH key, as printed by ssh-keygen -y; two lines while you replace the key.")
	c.Flags().StringVar(&o.platform, "platform", "", "Platform of the Machines. One of: aws, azure, gcp, vsphere, nutanix, none. Use none for any other platform.")
	c.Flags().StringSliceVar(&o.allowFrom, "allow-from", nil, "Address ranges that may connect to the SSH server, as in spec.network.allowFrom of WindowsConfig. Defaults to all.")
	return c
}

func (o userDataOptions) make() (*corev1.Secret, error) {
	if o.publicKey == "" {
		return nil, session.Failf(session.CodeUsage, "userdata requires --public-key: a file with the output of ssh-keygen -y -f <private key>")
	}
	p, known := machinePlatforms()[o.platform]
	if !known && o.platform != "none" {
		return nil, session.Failf(session.CodeUsage, "--platform %q is not supported: use one of aws, azure, gcp, vsphere, nutanix, none", o.platform)
	}
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	text, err := userdata.Render(p.infrastructure, keys, o.allowFrom)
	if err != nil {
		return nil, session.Failf(session.CodeUsage, "%w", err)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: api.UserDataSecret},
		Type:       bootstrapSecretType,
		StringData: map[string]string{bootstrapKey: text},
	}, nil
}

// keys returns the public keys in the file, without comments. Rendering the script rejects invalid keys without showing them: they may be
// private keys.
func (o userDataOptions) keys() (keys []string, err error) {
	f, err := os.Open(o.publicKey)
	if err != nil {
		return nil, session.Failf(session.CodeUsage, "%w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPublicKeys))
	if err != nil {
		return nil, session.Failf(session.CodeUsage, "reading %s: %w", o.publicKey, err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			keys = append(keys, strings.Join(fields[:min(2, len(fields))], " "))
		}
	}
	return keys, nil
}
