package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// KnownHosts are host keys that somebody has vouched for in advance.
type KnownHosts struct {
	// Keys are by address or name, in lower case and without a dot at the end. A host with several keys has the one that it would show at
	// first contact.
	Keys map[string]ssh.PublicKey
	// Faults are why hosts have no key although lines are there for them, by the same names.
	Faults map[string]error
	// Lines are what is wrong with lines, the first ones first, each with its number.
	Lines []error
}

// ParseKnownHosts reads host keys in the form that ssh-keyscan prints and that OpenSSH keeps in known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE
// FORMAT). Names must be there as they are: hashed ones, patterns, markers and other ports than 22 are faults of their lines.
func ParseKnownHosts(text string) KnownHosts {
	k := KnownHosts{Keys: map[string]ssh.PublicKey{}, Faults: map[string]error{}}
	byType := map[string]map[string]ssh.PublicKey{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		names, key, err := parseKnownHost(fields)
		for _, name := range names {
			if err == nil && byType[name][key.Type()] != nil && string(byType[name][key.Type()].Marshal()) != string(key.Marshal()) {
				err = fmt.Errorf("it has another key of type %s for %s than a line before", key.Type(), name)
			}
			if err == nil {
				byType[name] = merged(byType[name], key)
			}
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("line %d: %w", number, err)
		k.Lines = append(k.Lines, err)
		for _, name := range names {
			k.Faults[name] = err
		}
	}
	for name, keys := range byType {
		if k.Faults[name] == nil {
			k.Keys[name] = preferred(keys)
		}
	}
	return k
}

func merged(keys map[string]ssh.PublicKey, key ssh.PublicKey) map[string]ssh.PublicKey {
	if keys == nil {
		keys = map[string]ssh.PublicKey{}
	}
	keys[key.Type()] = key
	return keys
}

// preferred is the key that a host with all of these shows whom it does not know.
func preferred(keys map[string]ssh.PublicKey) ssh.PublicKey {
	for _, algorithm := range hostKeyAlgorithms(nil) {
		if key := keys[algorithm]; key != nil {
			return key
		}
	}
	return slices.Collect(maps.Values(keys))[0] // RSA: its algorithms are not named as its keys are
}

// parseKnownHost reads the fields of a line. With an error come the names that the line is about, as far as they can be told.
func parseKnownHost(fields []string) (names []string, key ssh.PublicKey, err error) {
	if strings.HasPrefix(fields[0], "@") {
		if len(fields) > 1 {
			names, _ = knownNames(fields[1])
		}
		return names, nil, fmt.Errorf("the marker %.20q is not supported", fields[0])
	}
	names, err = knownNames(fields[0])
	if err != nil {
		return names, nil, err
	}
	if len(fields) < 3 {
		return names, nil, hostKeyError("no key behind the names")
	}
	key, err = ParseHostKey(fields[1] + " " + fields[2])
	return names, key, err
}

// knownNames reads the first field of a line. With an error come the names that can be read all the same.
func knownNames(field string) (names []string, err error) {
	for name := range strings.SplitSeq(field, ",") {
		inside, port, bracketed := strings.Cut(strings.TrimPrefix(name, "["), "]:")
		switch {
		case strings.HasPrefix(name, "|"):
			err = fmt.Errorf("its names are hashed; make the lines with ssh-keyscan without -H")
			continue
		case strings.ContainsAny(name, "*?!"):
			err = fmt.Errorf("%.60q is a pattern; name each host", name)
			continue
		case bracketed && port != "22":
			err = fmt.Errorf("%.60q has another port than 22", name)
			continue
		case bracketed:
			name = inside
		}
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); name != "" {
			names = append(names, name)
		}
	}
	return names, err
}
