package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// ErrInUse is the error of removing the file of a running program, or a file of a layer with ordinary calls.
var ErrInUse = errors.New("the process cannot access the file because it is being used by another process")

// HCS is the Host Compute Service.
type HCS struct {
	// Hangs makes it answer no list request.
	Hangs bool
	// Fails makes each list fail.
	Fails error
}

// SetHCS changes the Host Compute Service.
func (w *Windows) SetHCS(got HCS) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hcs = got
}

// containers are those created by containerd's shims.
type containers struct{ boot *boot }

// List implements hostapi.Containers.
func (c containers) List(ctx context.Context) ([]string, error) {
	w := c.boot.w
	w.mu.Lock()
	silent, fails := w.hcs.Hangs, w.hcs.Fails
	w.mu.Unlock()
	if silent {
		<-ctx.Done()
	}
	if err := c.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.containers)), fails
}

// End implements hostapi.Containers.
func (c containers) End(_ context.Context, name string) error {
	_, err := c.remove(c.boot.w.containers, name, "end "+name)
	return err
}

// RemoveNamespace implements hostapi.Containers.
func (c containers) RemoveNamespace(_ context.Context, id string) (removed bool, err error) {
	return c.remove(c.boot.w.networks, strings.ToLower(id), "network "+strings.ToLower(id))
}

func (c containers) remove(from map[string]bool, name, operation string) (removed bool, err error) {
	c.boot.w.mu.Lock()
	defer c.boot.w.mu.Unlock()
	if c.boot.off {
		return false, ErrPower
	}
	if !from[name] {
		return false, nil
	}
	if err := c.boot.changeLocked(operation); err != nil {
		return false, err
	}
	delete(from, name)
	return true, nil
}

// RemoveLayer implements hostapi.Containers.
func (c containers) RemoveLayer(_ context.Context, folder string) error {
	if !c.boot.w.Disk().Exists(folder) {
		return nil
	}
	if err := c.boot.change("layer " + folder); err != nil {
		return err
	}
	c.boot.w.mu.Lock()
	delete(c.boot.w.layers, folder)
	c.boot.w.mu.Unlock()
	return c.boot.w.Disk().RemoveAll(folder)
}

// EndPrograms implements hostapi.Containers.
func (c containers) EndPrograms(ctx context.Context, folder string) (ended []string, err error) {
	w := c.boot.w
	w.mu.Lock()
	programs := slices.Sorted(maps.Keys(w.programs))
	w.mu.Unlock()
	for _, program := range programs {
		if !strings.HasPrefix(strings.ToLower(program), strings.ToLower(folder)+`\`) {
			continue
		}
		removed, err := c.remove(w.programs, program, "end "+program)
		if err != nil {
			return ended, err
		}
		if removed {
			ended = append(ended, program)
		}
	}
	return ended, ctx.Err()
}

// AddContainer starts a container, whose shim is a process of a program. It ends with the computer.
func (w *Windows) AddContainer(name, shim string) {
	w.AddProgram(shim)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.containers[name] = true
}

// AddProgram starts a program that belongs to no service. While it runs, its file cannot be removed.
func (w *Windows) AddProgram(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.programs[path] = true
}

// AddNetwork creates the network of a pod, which stays when its containers end and when the computer restarts.
func (w *Windows) AddNetwork(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.networks[strings.ToLower(id)] = true
}

// AddLayer creates the folder of a layer, with a file in it that ordinary calls cannot remove.
func (w *Windows) AddLayer(folder string) error {
	_, err := w.Disk().WriteFile(folder+`\Files\License.txt`, "a layer")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.layers[folder] = true
	return err
}

// Remnants returns the existing containers, programs, pod networks and layers.
func (w *Windows) Remnants() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, part := range []map[string]bool{w.containers, w.programs, w.networks, w.layers} {
		all = append(all, slices.Sorted(maps.Keys(part))...)
	}
	return all
}

// inUseLocked rejects the removal of a running program's file, under any name, and of files of layers.
func (b *boot) inUseLocked(name string) error {
	for layer := range b.w.layers {
		if strings.HasPrefix(name, layer+`\`) {
			return fmt.Errorf("removing %s: %w", name, fs.ErrPermission)
		}
	}
	disk := b.w.Disk()
	info, err := disk.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	for _, program := range b.programsLocked() {
		if runs, err := disk.Stat(program); err == nil && os.SameFile(info, runs) {
			return fmt.Errorf("removing %s: %w", name, ErrInUse)
		}
	}
	return nil
}

// programsLocked returns the files of the running programs.
func (b *boot) programsLocked() []string {
	programs := slices.Collect(maps.Keys(b.w.programs))
	for name := range b.running {
		if d := b.w.declared[name]; d != nil {
			for word := range strings.FieldsSeq(d.Command) {
				if word = strings.Trim(word, `"`); strings.HasSuffix(strings.ToLower(word), ".exe") {
					programs = append(programs, word)
				}
			}
		}
	}
	return programs
}
