package configure

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// keysFile has the keys with which administrators may log in over SSH, unless the block "Match Group administrators" was removed from OpenSSH's
// configuration. addedFile lists the keys in it that WICD added.
const (
	sshFolder = `C:\ProgramData\ssh`
	keysFile  = sshFolder + `\administrators_authorized_keys`
	addedFile = desired.State + `\keys.json`
)

// sshKeys manages the keys with which the operator logs in.
type sshKeys struct {
	work
	wanted []string
}

// authorize adds the operator's keys. Keys of others stay. Each key is recorded before it is added, as with certificates. A host without OpenSSH
// has no such folder.
func (k sshKeys) authorize(context.Context) error {
	if len(k.wanted) == 0 || !k.Disk.Exists(sshFolder) {
		return nil
	}
	content, err := readKeys(k.Disk)
	if err != nil {
		return err
	}
	existing := keysIn(content)
	added, err := addedKeys(k.Disk)
	if err != nil {
		return err
	}
	var missing []string
	for _, line := range k.wanted {
		if key := keyIn(line); !slices.Contains(existing, key) && !slices.Contains(missing, key) {
			missing = append(missing, key)
			content = appendLine(content, strings.TrimSpace(line))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := noteAdded(k.Disk, append(added, missing...)); err != nil {
		return err
	}
	if err := writeKeys(k.Host, content); err != nil {
		return err
	}
	for _, key := range missing {
		k.recordChange("SSH key %.12s is authorized", keyHash(key))
	}
	return nil
}

// try authorizes the keys in a join: a host that cannot take them becomes a node anyway.
func (k sshKeys) try(ctx context.Context) error {
	if err := k.authorize(ctx); err != nil {
		k.recordFailure(err)
	}
	return ctx.Err()
}

// appendLine appends a line with the text's line endings.
func appendLine(text, line string) string {
	ending := "\n"
	if strings.Contains(text, "\r\n") {
		ending = "\r\n"
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += ending
	}
	return text + line + ending
}

// readKeys reads the file, which may be absent. Windows tools often write encodings that OpenSSH does not read.
func readKeys(d hostapi.Disk) (string, error) {
	info, err := d.Stat(keysFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var b []byte
	if err == nil {
		b, err = d.Read(keysFile)
	}
	if err == nil && strings.ContainsRune(string(b), 0) {
		err = errors.New("it is UTF-16, which OpenSSH cannot read: save it as UTF-8")
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", keysFile, err)
	}
	return string(b), nil
}

// writeKeys replaces the file by a temporary one, whose rights are set before its content, and whose content is verified before the switch.
func writeKeys(h hostapi.Host, content string) error {
	err := h.Disk.Replace(keysFile, func(beside string) error {
		f, err := h.Disk.Create(beside)
		if err != nil {
			return err
		}
		if err := h.Disk.Fill(f, beside, content, h.MakePrivate); err != nil {
			return err
		}
		written, err := h.Disk.Read(beside)
		if err == nil && string(written) != content {
			err = errors.New("the content read back differs from the content written")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", keysFile, err)
	}
	return nil
}

// addedKeys returns the keys that WICD added. An unreadable list counts as empty: keys then stay.
func addedKeys(d hostapi.Disk) ([]string, error) {
	var added []string
	_, err := state.ReadJSON(d, addedFile, &added)
	return added, err
}

func noteAdded(d hostapi.Disk, keys []string) error {
	slices.Sort(keys)
	return state.WriteJSON(d, addedFile, slices.Compact(keys))
}

// checkKeys rejects lines that are not exactly one key.
func checkKeys(lines []string) error {
	for i, line := range lines {
		if keyIn(line) == "" || strings.ContainsAny(strings.TrimSpace(line), "\r\n\x00") {
			return fmt.Errorf("[%d] is not a public key; a line such as ssh-ed25519 AAAA... is needed", i)
		}
	}
	return nil
}

// keyHash returns the hash by which the operator identifies a key on Nodes.
func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func keysIn(text string) (keys []string) {
	for line := range strings.Lines(text) {
		if key := keyIn(line); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// keyIn returns the key in a line of authorized_keys, its type and its base64, without options and comment; empty when there is none.
func keyIn(line string) string {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if key := firstKey(line); key != "" {
		return key
	}
	isQuoted, isEscaped := false, false
	for i, r := range line { // options, in which spaces are quoted
		switch {
		case isEscaped:
			isEscaped = false
		case r == '\\':
			isEscaped = true
		case r == '"':
			isQuoted = !isQuoted
		case !isQuoted && (r == ' ' || r == '\t'):
			return firstKey(line[i:])
		}
	}
	return ""
}

// firstKey returns the key at the start of a text. The key's bytes begin with its type, preceded by a length of four bytes (RFC 4253).
func firstKey(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return ""
	}
	kind := fields[0]
	b, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(b) <= 4+len(kind) || string(b[:4]) != string([]byte{0, 0, 0, byte(len(kind))}) || string(b[4:4+len(kind)]) != kind {
		return ""
	}
	return kind + " " + fields[1]
}
