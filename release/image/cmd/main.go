// The command builds the operator's image from the output of make build and make payload. "make image" runs it.
package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/signature"
)

// options are the flags.
type options struct {
	source image.Source
	// install is a folder for a kustomization of deploy/ with the pushed image; empty for none.
	out, push, install string
	plainHTTP          bool
	key                *ecdsa.PrivateKey // signs what is pushed; nil for none
	builder            string
}

func main() {
	o := parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options) {
	set := flag.NewFlagSet("image", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprint(set.Output(), "Builds the operator's container image.\n\nFlags:\n")
		set.PrintDefaults()
	}
	o.source.Operators = map[string]string{}
	set.StringVar(&o.source.Payload, "payload", "_payload", "`folder` that make payload wrote")
	set.StringVar(&o.source.Version, "version", "0.0.0-devel", "`version` of the release")
	set.StringVar(&o.source.Revision, "revision", "", "`commit` that the image is built from")
	set.StringVar(&o.out, "out", "_image", "`folder` for the image, as an OCI image layout; its software bill of materials is written to <folder>.cdx.json; with --push, neither is written")
	set.StringVar(&o.push, "push", "", "registry and repository, with or without a tag, to push the image to, for example `quay.io/team/wmco:1.2.0`; "+
		"uses the credentials of docker login or podman login")
	set.BoolVar(&o.plainHTTP, "plain-http", false, "push without TLS")
	set.StringVar(&o.install, "install", "", "`folder` beside deploy/ for a kustomization.yaml that installs the pushed image")
	set.Func("sign-key", "`file` with an ECDSA private key in PEM, which signs what is pushed", func(value string) (err error) {
		o.key, err = signature.ReadKey(value)
		return err
	})
	set.StringVar(&o.builder, "builder", signature.HandBuilder(image.Repository), "`URI` of the builder of the image, for the signed provenance")
	set.Func("operator", "`architecture=path` of an executable of the operator; repeat it for each of amd64 and arm64", func(value string) error {
		architecture, path, ok := strings.Cut(value, "=")
		if !ok || architecture != "amd64" && architecture != "arm64" {
			return errors.New("must be amd64=path or arm64=path")
		}
		o.source.Operators[architecture] = path
		return nil
	})
	set.Func("created", "`time` of that commit, as in 2026-11-23T10:00:00Z", func(value string) (err error) {
		o.source.Created, err = time.Parse(time.RFC3339, value)
		return err
	})
	_ = set.Parse(args) // prints the error and exits
	if set.NArg() > 0 {
		fmt.Fprintf(set.Output(), "unexpected argument %q\n", set.Arg(0))
		os.Exit(2)
	}
	return o
}

// push pushes the image, signs it, and writes the kustomization that installs it.
func push(ctx context.Context, o options, index v1.ImageIndex, sbom []byte) (reference string, err error) {
	referrer, err := image.SBOMReferrer(index, sbom)
	if err != nil {
		return "", err
	}
	if reference, err = image.Push(ctx, o.push, o.plainHTTP, index, referrer); err != nil {
		return reference, err
	}
	if o.key != nil {
		if err := image.Sign(ctx, o.push, o.plainHTTP, index, o.key, o.source.Provenance(o.builder)); err != nil {
			return reference, err
		}
	}
	if o.install != "" {
		return reference, image.WriteKustomization(o.install, reference)
	}
	return reference, nil
}

func run(ctx context.Context, o options, w io.Writer) error {
	began := time.Now()
	index, err := image.Build(o.source)
	if err != nil {
		return err
	}
	sbom, err := o.source.SBOM()
	if err != nil {
		return err
	}
	location := o.out
	if o.push == "" {
		err = errors.Join(image.Write(o.out, o.source, index), os.WriteFile(filepath.Clean(o.out)+".cdx.json", sbom, 0o644))
	} else {
		location, err = push(ctx, o, index, sbom)
	}
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	size, err := image.PullBytes(index)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "image.mb_compressed %.1f MB\nimage.digest %s\n%s is complete after %.1f s\n",
		float64(size)/1e6, digest, location, time.Since(began).Seconds())
	return err
}
