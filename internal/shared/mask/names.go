package mask

import (
	"slices"
	"strings"
	"unicode"
)

// class is the kind of secret that a name denotes.
type class int

const (
	open     class = iota
	opaque         // token, secret, credential, private key: long and generated
	password       // chosen by people
)

// maxName is how much of a name is evaluated, from its end.
const maxName = 96

// classOf returns the kind of secret that a field, flag or variable with this name holds. Names that only describe one are open: secretName,
// tokenTTL.
func classOf(name string) class {
	name = strings.Trim(name, `-_.$"'`)
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	words := wordsOf(name)
	if len(words) == 0 {
		return open
	}
	found := open
	for i, w := range words {
		switch {
		case isPassword(w):
			found = password
		case found == open && (isOpaque(w) || i > 0 && isKey(words[i-1], w)):
			found = opaque
		}
	}
	last := words[len(words)-1]
	if found == password && slices.Contains([]string{"hash", "txt", "pem", "cfg", "conf"}, last) {
		return found
	}
	if len(words) > 1 && slices.Contains(describing(), last) || slices.Contains(describingWords(), last) {
		return open
	}
	return found
}

// wordsOf splits dbPassword, DB_PASSWORD, db-password and DBPassword into lower-case words.
func wordsOf(name string) []string {
	var words []string
	runes := []rune(name)
	begin := 0
	end := func(at int) {
		if at > begin {
			words = append(words, strings.ToLower(string(runes[begin:at])))
		}
		begin = at
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end(i)
			begin = i + 1
		case i > 0 && unicode.IsUpper(r) && unicode.IsLower(runes[i-1]),
			i > 0 && i+1 < len(runes) && unicode.IsUpper(r) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1]):
			end(i)
		}
	}
	end(len(runes))
	return words
}

func isPassword(word string) bool {
	word = strings.TrimRight(word, "0123456789")
	for _, part := range []string{"password", "passwd", "passphrase", "passcode", "passwort"} {
		if strings.Contains(word, part) {
			return true
		}
	}
	if strings.HasSuffix(word, "pwd") || word == "pswd" || word == "psw" {
		return true
	}
	return strings.HasSuffix(word, "pass") && !slices.Contains([]string{"bypass", "compass", "encompass", "overpass", "surpass", "trespass", "underpass"}, word)
}

func isOpaque(word string) bool {
	for _, part := range []string{
		"secret", "token", "credential", "apikey", "accesskey", "accountkey", "privatekey", "secretkey", "authkey", "signingkey", "encryptionkey",
	} {
		if strings.Contains(word, part) {
			return true
		}
	}
	return slices.Contains([]string{"cred", "creds", "jwt", "cookie", "cookies"}, word)
}

// isKey reports whether words name a secret key, as opposed to a host key or a public key.
func isKey(before, word string) bool {
	return (word == "key" || word == "keys") && slices.Contains([]string{
		"api", "access", "account", "client", "private", "signing", "encryption", "shared", "storage", "master", "auth", "primary", "secondary",
		"license", "subscription", "functions",
	}, before)
}

// describing returns the last words of names that only describe a secret.
func describing() []string {
	return []string{
		"name", "names", "namespace", "ref", "refs", "reference", "file", "files", "path", "paths", "dir", "directory", "url", "uri", "endpoint",
		"ttl", "seconds", "minutes", "duration", "expiration", "expires", "expired", "expiry", "lifetime", "type", "kind", "policy", "version",
		"count", "length", "size", "limit", "id", "ids", "uid", "hash", "review", "reviews", "request", "requests", "provider", "providers", "mode",
		"enabled", "required", "source", "sources", "format", "prefix", "age", "spec", "specs", "template", "rotation", "status", "state", "time",
		"at", "usage", "class", "issuer", "audience", "audiences", "projection", "controller", "cleaner", "manager", "signer", "store", "volume",
		"volumes", "mount", "mounts", "io", "com", "go", "exe", "dll", "json", "yaml", "yml", "log", "pem", "crt", "cer", "pub", "txt", "cfg", "conf", "toml", "xml", "present", "missing", "changed", "wanted",
	}
}

// describingWords returns words that contain the name of a secret but hold none.
func describingWords() []string {
	return []string{
		"tokenreview", "tokenreviews", "tokenrequest", "tokenrequests", "tokenizer", "secretref", "secretlist", "secretary", "credentialspec",
		"credentialspecs", "gmsacredentialspec",
	}
}

// isHeader reports whether the whole value of an HTTP header is secret.
func isHeader(name string) bool {
	return slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "set-cookie", "x-registry-auth", "x-registry-config"}, strings.ToLower(name))
}

// isHarmless reports whether a value is no secret, regardless of its name: empty, a reference to a variable, and placeholders that kubectl prints.
func isHarmless(name, value string) bool {
	lower := strings.ToLower(strings.TrimSpace(value))
	switch {
	case slices.Contains([]string{"", "true", "false", "null", "nil", "none", "<nil>", "<none>", "~", Mark, "redacted", "<redacted>", "[redacted]"}, lower):
		return true
	case strings.HasPrefix(lower, "<set to "), isReference(value):
		return true
	}
	words := wordsOf(name)
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	if isNumber(value) {
		return last == "tokens" || last == "secrets" || last == "credentials" || last == "pass" && len(words) == 1
	}
	isPath := strings.HasPrefix(value, "/") || len(value) > 2 && value[1] == ':' && (value[2] == '\\' || value[2] == '/')
	switch {
	case isPath:
		return last == "key" || strings.EqualFold(name, "pwd") || strings.EqualFold(name, "oldpwd")
	case len(words) == 1 && (last == "secret" || last == "secrets"):
		return isObjectName(value)
	}
	return false
}

// isReference recognizes $(NAME), ${NAME}, $env:NAME, %NAME% and {{ .name }}.
func isReference(v string) bool {
	for _, form := range [][2]string{{"$(", ")"}, {"${", "}"}, {"{{", "}}"}, {"%", "%"}, {"$env:", ""}} {
		inner, found := strings.CutPrefix(v, form[0])
		if !found {
			continue
		}
		inner, found = strings.CutSuffix(inner, form[1])
		if found && inner != "" && strings.Trim(strings.TrimSpace(inner), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.0123456789") == "" {
			return true
		}
	}
	return false
}

func isNumber(v string) bool { return v != "" && strings.Trim(v, "0123456789.") == "" }

// isObjectName recognizes <namespace>/<name>, the notation of Kubernetes' programs for a Secret.
func isObjectName(v string) bool {
	namespace, name, found := strings.Cut(v, "/")
	label := func(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == "" }
	return found && label(namespace) && label(name)
}

// isProse recognizes words with which a message continues after "password" or "token:".
func isProse(word string) bool {
	return slices.Contains([]string{
		"a", "an", "and", "are", "as", "at", "be", "by", "can", "cannot", "could", "did", "does", "for", "from", "had", "has", "have", "if", "in", "is",
		"it", "its", "may", "must", "no", "not", "of", "on", "or", "should", "that", "the", "then", "this", "to", "was", "were", "when", "which", "will",
		"with", "without", "would", "connection", "context", "denied", "dial", "empty", "eof", "error", "expired", "expires", "failed", "failure",
		"forbidden", "get", "incorrect", "internal", "invalid", "lookup", "mismatch", "missing", "net/http", "open", "post", "put", "read", "refused",
		"rejected", "required", "server", "signature", "square/go-jose", "stat", "timed", "timeout", "unable", "unauthorized", "unexpected", "unknown",
		"unsupported", "write", "wrong", "request", "secret", "token", "policy", "changed", "file", "authentication", "service", "could't", "couldn't",
	}, strings.ToLower(strings.TrimRight(word, ",.;:!")))
}
