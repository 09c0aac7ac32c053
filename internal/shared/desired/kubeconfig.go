package desired

import "encoding/json"

// renderKubeconfig returns a kubeconfig with the identity in a file that WICD writes. It holds no secret: it
// refers to the file with the certificate, which clients read again when it is renewed. It is JSON, which is
// valid YAML.
func renderKubeconfig(c Cluster, name, identity string) string {
	type object = map[string]any
	b, _ := json.MarshalIndent(object{ // strings only: never fails
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": c.Server, "certificate-authority-data": []byte(c.CA)}}},
		"users":    []object{{"name": name, "user": object{"client-certificate": identity, "client-key": identity}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name}}},
	}, "", "  ")
	return string(b) + "\n"
}
