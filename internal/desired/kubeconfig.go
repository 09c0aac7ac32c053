package desired

import "encoding/json"

// renderWICDKubeconfig is a kubeconfig with WICD's identity, for programs that act for it. It holds no secret: it names
// the file with the certificate, which clients read anew when it is renewed. JSON is YAML, too.
func renderWICDKubeconfig(c Cluster) string {
	type object = map[string]any
	const name = "wicd"
	b, _ := json.MarshalIndent(object{ // strings only: never fails
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": c.Server, "certificate-authority-data": []byte(c.CA)}}},
		"users":    []object{{"name": name, "user": object{"client-certificate": WICDIdentity, "client-key": WICDIdentity}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name}}},
	}, "", "  ")
	return string(b) + "\n"
}
