//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// measureImage builds the image as users do, in two clones of the repository, and runs it as a pod of a Linux node.
func measureImage(ctx context.Context, s *sheet) error {
	if err := s.countInstallCommands(); err != nil {
		return err
	}
	if err := s.buildImages(ctx); err != nil {
		return err
	}
	return s.measurePod(ctx)
}

// countInstallCommands counts the commands of README's installation, which TestReadmeInstall runs: with Helm, one takes the place of the
// last of kubectl.
func (s *sheet) countInstallCommands() error {
	withKubectl, withHelm, _, err := testenv.InstallBlocks("..")
	if err != nil {
		return err
	}
	count := func(block string) float64 { return float64(len(strings.Split(strings.TrimSpace(block), "\n"))) }
	kubectl, helm := count(withKubectl), count(withHelm)
	s.number("install.commands_kubectl", kubectl, "commands")
	s.number("install.commands_helm", kubectl-1+helm, "commands")
	return nil
}

// built is what make image prints.
var built = regexp.MustCompile(`(?m)^image\.mb_compressed (\S+) MB\nimage\.digest (\S+)\n.* is complete after (\S+) s$`)

func (s *sheet) buildImages(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "wmco-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var digests []string
	var size, seconds float64
	for _, name := range []string{"one", "two"} {
		clone := filepath.Join(dir, name)
		s.say("Building the image in clone %s", name)
		if out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "..", clone).CombinedOutput(); err != nil {
			return fmt.Errorf("cloning the repository: %w: %s", err, out)
		}
		var log bytes.Buffer
		command := exec.CommandContext(ctx, "make", "image")
		command.Dir, command.Stdout, command.Stderr = clone, &log, s.progress
		if err := command.Run(); err != nil {
			return fmt.Errorf("building the image: %w", err)
		}
		found := built.FindStringSubmatch(log.String())
		if found == nil {
			return fmt.Errorf("make image printed no size, digest and time:\n%s", log.String())
		}
		var failures [2]error
		size, failures[0] = strconv.ParseFloat(found[1], 64)
		seconds, failures[1] = strconv.ParseFloat(found[3], 64)
		if err := errors.Join(failures[:]...); err != nil {
			return err
		}
		digests = append(digests, found[2])
	}
	same := 1.
	if digests[0] == digests[1] {
		same = 2
	}
	s.number("image.mb_compressed", size, "MB")
	s.number("image.build_seconds_warm", seconds, "s")
	s.number("image.identical_digests", same, "of 2")
	return nil
}

// podIdleFor is how long the operator has had nothing to do when its memory is measured.
const podIdleFor = 30 * time.Second

// measurePod measures the operator's start as a pod, rounds times, and its memory without hosts.
func (s *sheet) measurePod(ctx context.Context) error {
	s.say("Starting the operator as a pod")
	env, err := testenv.Open(ctx, testenv.Options{Pod: true, Log: s.progress})
	if err != nil {
		return err
	}
	defer env.Close()
	if err := env.Configure(ctx); err != nil {
		return err
	}
	var starts []float64
	for range rounds {
		pod, err := env.Pod.Running(ctx)
		if err == nil {
			err = env.Clients.CoreV1().Pods(api.DefaultNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		}
		if err == nil {
			_, err = env.Pod.WaitUntilReady(ctx)
		}
		if err != nil {
			return err
		}
		c, err := env.Pod.Container(ctx)
		if err != nil {
			return err
		}
		age, err := c.Age()
		if err != nil {
			return err
		}
		starts = append(starts, age.Seconds())
	}
	s.number("operator.start_to_ready_seconds", median(starts), "s")
	time.Sleep(podIdleFor)
	c, err := env.Pod.Container(ctx)
	if err != nil {
		return err
	}
	resident, err := c.Status("VmRSS")
	if err != nil {
		return err
	}
	kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(resident, " kB"), 64)
	if err != nil {
		return err
	}
	s.number("operator.pod_rss_mb", kilobytes*1024/1e6, "MB")
	return nil
}
