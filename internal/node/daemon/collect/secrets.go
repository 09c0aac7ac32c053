package collect

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// minKnown is the minimum length of a text in a secret file to count as a secret.
const minKnown = 8

// secrets returns the secrets that WICD knows, so that they are masked wherever a program wrote them: variables and files of the record, the token
// of the bootstrap kubeconfig, and the keys of the registry on loopback.
func (c *Collector) secrets() []string {
	var known []string
	for _, value := range c.Record.Secrets.Environment {
		known = append(known, value)
		if u, err := url.Parse(value); err == nil && u.User != nil {
			password, _ := u.User.Password()
			known = append(known, password, u.User.String())
		}
	}
	known = append(known, c.Record.Secrets.Salt, c.Record.Bootstrap.Token)
	for _, f := range c.Record.Secrets.Files {
		known = append(known, textsOf(f.Content)...)
	}
	for _, f := range c.Wanted.Files {
		if f.Secret {
			known = append(known, textsOf(f.Content)...)
		}
	}
	for _, name := range []string{desired.BootstrapKubeconfig, credentials.RegistryFile} {
		if b, err := c.Host.Disk.Read(name); err == nil {
			known = append(known, textsOf(string(b))...)
		}
	}
	return known
}

// textsOf returns the texts in a file with secrets: the values of JSON, or else those of each line. Base64-encoded credentials are returned in
// both forms.
func textsOf(content string) []string {
	var found []string
	var tree any
	if json.Unmarshal([]byte(content), &tree) == nil {
		found = leaves(tree)
	} else {
		for line := range strings.Lines(content) {
			line = strings.TrimSpace(line)
			_, value, _ := strings.Cut(line, ": ")
			found = append(found, line, strings.Trim(value, `"' `))
		}
	}
	var texts []string
	for _, text := range found {
		if len(text) < minKnown {
			continue
		}
		texts = append(texts, text)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if _, password, isPair := strings.Cut(string(decoded), ":"); err == nil && isPair {
			texts = append(texts, string(decoded), password)
		}
	}
	return texts
}

// leaves returns the texts in a JSON value.
func leaves(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		texts = append(texts, v)
		if strings.Contains(v, "\n") {
			texts = append(texts, strings.Fields(v)...)
		}
	case []any:
		for _, item := range v {
			texts = append(texts, leaves(item)...)
		}
	case map[string]any:
		for _, item := range v {
			texts = append(texts, leaves(item)...)
		}
	}
	return texts
}
