package mask

import (
	"slices"
	"strings"
)

// tool is a program that takes a secret in an argument that no name identifies.
type tool struct {
	// flags are followed by a secret; an argument that begins with one of attached ends with a secret.
	flags, attached []string
	// command is the subcommand that has these arguments; "" for all.
	command string
	// position returns the index of a secret among the other arguments; -1 if there is none.
	position func(others []string) int
}

func tools() map[string]tool {
	login, shell := tool{flags: []string{"-p"}, command: "login"}, tool{flags: []string{"-p"}}
	sql := tool{flags: []string{"-P"}, attached: []string{"-P"}}
	mysql := tool{attached: []string{"-p"}}
	ldap := tool{flags: []string{"-w"}}
	remote := tool{flags: []string{"-pw", "-p"}, attached: []string{"/p:", "-p:", "/rp:"}}
	zip := tool{flags: []string{"-P"}, attached: []string{"-p", "-P"}}
	after := func(words ...string) func([]string) int {
		return func(others []string) int {
			if len(others) > 2 && slices.Contains(words, strings.ToLower(others[0])) && others[2] != "*" {
				return 2
			}
			return -1
		}
	}
	named := func(others []string) int {
		if len(others) > 1 && classOf(others[0]) != open {
			return 1
		}
		return -1
	}
	return map[string]tool{
		"curl": {flags: []string{"-u", "-U", "--user", "--proxy-user"}, attached: []string{"-u", "-U", "--user=", "--proxy-user="}},
		"wget": {flags: []string{"--user"}, attached: []string{"--user="}}, "sqlcmd": sql, "osql": sql, "bcp": sql, "isql": sql,
		"mysql": mysql, "mysqldump": mysql, "mysqladmin": mysql, "mariadb": mysql, "sshpass": {flags: []string{"-p"}, attached: []string{"-p"}},
		"docker": login, "podman": login, "nerdctl": login, "buildah": login, "helm": login, "oc": login, "az": login, "crane": login, "oras": login, "skopeo": login,
		"redis-cli": {flags: []string{"-a"}}, "ldapsearch": ldap, "ldapmodify": ldap, "ldapadd": ldap, "ldapwhoami": ldap,
		"psexec": remote, "psexec64": remote, "plink": remote, "pscp": remote, "putty": remote, "winrs": remote, "xfreerdp": remote, "rdesktop": remote,
		"schtasks": {flags: []string{"/rp", "/p"}}, "sc": {flags: []string{"password="}}, "7z": zip, "7za": zip, "zip": zip, "unzip": zip, "rar": zip,
		"certutil": {flags: []string{"-p"}}, "openssl": {flags: []string{"-k", "-K"}, attached: []string{"pass:"}},
		"smbclient": {flags: []string{"-U"}}, "rpcclient": {flags: []string{"-U"}}, "net": {position: after("user", "use")}, "net1": {position: after("user", "use")},
		"setx": {position: named}, "set": {position: named}, "env": {position: named}, "htpasswd": {position: lastOf("-b")}, "vault": {position: after("login")},
		"reg": {position: registryData}, "ntlmrelayx": ldap, "mongo": shell, "mongosh": shell, "etcdctl": {flags: []string{"--user"}, attached: []string{"--user="}},
	}
}

// lastOf returns the last argument if a flag is present.
func lastOf(flag string) func([]string) int {
	return func(others []string) int {
		if slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(o, flag) }) && len(others) > 3 {
			return len(others) - 1
		}
		return -1
	}
}

// registryData returns the data of a registry value with a secret name: reg add <key> /v DefaultPassword /d x.
func registryData(others []string) int {
	name := slices.IndexFunc(others, func(o string) bool { return strings.EqualFold(o, "/v") })
	data := slices.IndexFunc(others, func(o string) bool { return strings.EqualFold(o, "/d") })
	if name < 0 || data < 0 || name+1 >= len(others) || data+1 >= len(others) || classOf(others[name+1]) == open {
		return -1
	}
	return data + 1
}

// arguments returns the indexes of secret arguments of a command, and the offset at which the secret begins.
func (m *Masker) arguments(args []string) map[int]int {
	secret := map[int]int{}
	for i, arg := range args {
		if flag := strings.TrimLeft(arg, "-/"); i+1 < len(args) && flag != arg && !strings.ContainsAny(flag, "=:") && isSecretFlag(flag) {
			if next := args[i+1]; !isFlag(next) && !isProse(next) && !isHarmless(flag, next) {
				secret[i+1] = 0
			}
		}
		base := strings.ToLower(strings.Trim(arg[strings.LastIndexAny(arg, `/\`)+1:], `"'([{`+"`"))
		if t, found := m.tools[strings.TrimSuffix(base, ".exe")]; found {
			t.arguments(args, i, secret)
		}
	}
	return secret
}

// maxArguments limits the arguments of one program that are checked.
const maxArguments = 64

func (t tool) arguments(args []string, program int, secret map[int]int) {
	others := args[program+1 : min(len(args), program+1+maxArguments)]
	if t.command != "" && !slices.Contains(others, t.command) {
		return
	}
	for i, arg := range others {
		at := program + 1 + i
		if i+1 < len(others) && slices.Contains(t.flags, arg) && !isFlag(others[i+1]) {
			secret[at+1] = 0
			continue
		}
		for _, form := range t.attached {
			if len(arg) > len(form) && strings.HasPrefix(arg, form) && !strings.HasPrefix(arg, "--p") {
				secret[at] = len(form)
			}
		}
	}
	if t.position == nil {
		return
	}
	if i := t.position(others); i >= 0 && !isFlag(others[i]) {
		secret[program+1+i] = 0
	}
}

func isSecretFlag(flag string) bool {
	return classOf(flag) != open || flag == "creds" || strings.HasSuffix(flag, "-creds")
}

// isFlag reports whether an argument is the next flag.
func isFlag(arg string) bool {
	return len(arg) > 1 && (arg[0] == '-' && (arg[1] == '-' || arg[1] >= 'a' && arg[1] <= 'z') || arg[0] == '/' && !strings.ContainsAny(arg[1:], `/\.`) && len(arg) < 12)
}

// commands finds secrets in command lines, and words after the word password.
func (m *Masker) commands(line string) (found spans) {
	words := split(line)
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = line[w.from:w.to]
	}
	for i, from := range m.arguments(args) {
		found = append(found, span{words[i].from + from, words[i].to})
	}
	for i := range args {
		if at, ok := stated(args, i); ok {
			found = append(found, words[at])
		}
	}
	return found
}

// stated finds a password in a sentence: "the password is x", "password x", "SecretString x".
func stated(args []string, i int) (at int, ok bool) {
	name := strings.Trim(args[i], `"'():,;[]{}`)
	c := classOf(name)
	if c == open || strings.ContainsAny(name, "=:/") {
		return 0, false
	}
	compound := len(wordsOf(name)) > 1 && !strings.Contains(name, "-")
	for at = i + 1; at < len(args) && at < i+3; at++ {
		word := strings.TrimRight(args[at], ".,;:!)")
		if at == i+1 && slices.Contains([]string{"is", "was", "=>", "->", "to", "becomes"}, word) {
			continue
		}
		if c == password || compound {
			return at, isTyped(word)
		}
		return at, isGenerated(word)
	}
	return 0, false
}

// isTyped reports whether a word is not a natural word: it has letters and digits, or letters and symbols.
func isTyped(w string) bool {
	if len(w) < 4 || isFlag(w) || strings.ContainsAny(w, "=/\\") || strings.Contains(w, "://") {
		return false
	}
	letters := strings.ContainsFunc(w, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
	return letters && strings.ContainsAny(w, "0123456789!@#$%^&*+~?")
}

// isGenerated reports whether a program generated a word: it is long, with upper-case and lower-case letters and digits.
func isGenerated(w string) bool {
	return len(w) >= 16 && strings.ContainsAny(w, "0123456789") && strings.ToLower(w) != w && strings.ToUpper(w) != w && strings.Trim(w, "-_.~+=") == w &&
		!strings.ContainsAny(w, `/:\"'()<>[]{}`)
}

// split returns the words of a line, without quotation marks. It also splits a comma-separated list.
func split(line string) (words spans) {
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' || line[i] == ',' && (i == 0 || strings.IndexByte("\"'", line[i-1]) >= 0) || line[i] == '[' {
			i++
			continue
		}
		if mark, first := quotation(line, i); mark != 0 {
			end := endOfQuotation(line, first, mark, first-i-1)
			words = append(words, span{first, end})
			for i = end; i < len(line) && (line[i] == '\\' || line[i] == mark); i++ {
			}
			continue
		}
		from := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' && (line[i] != ',' || line[i-1] != '"') {
			i++
		}
		words = append(words, span{from, from + len(strings.TrimRight(line[from:i], `"'])}`+"`"))})
	}
	return words
}
