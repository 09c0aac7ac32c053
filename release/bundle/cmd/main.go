// The command builds the operator's bundle for the Operator Lifecycle Manager and adds it to a catalog. "make bundle" and "make catalog"
// run it.
package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/mail"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/archive"
	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/catalog"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/signature"
)

// options are the flags.
type options struct {
	bundle bundle.Source
	// layout is the folder of the operator's image, whose digest the bundle names.
	layout string
	// repository, bundleRepository and catalogRepository are the repositories of the images.
	repository, bundleRepository, catalogRepository string
	revision                                        string
	// previous is the catalog of the last release.
	previous string
	// withdrawn is a published version that the catalog omits.
	withdrawn       string
	out             string
	catalog         bool
	push, plainHTTP bool
	key             *ecdsa.PrivateKey // signs what is pushed; nil for none
	builder         string
}

func main() {
	o := parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options) {
	set := flag.NewFlagSet("bundle", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprint(set.Output(), "Builds the operator's bundle and a catalog for the Operator Lifecycle Manager.\n\nFlags:\n")
		set.PrintDefaults()
	}
	set.StringVar(&o.bundle.Deploy, "deploy", "deploy", "`folder` with the manifests")
	set.StringVar(&o.bundle.Version, "version", "", "semantic `version` of the release, for example 1.2.0")
	set.StringVar(&o.bundle.Image, "image", "", "the operator's `image` with its digest, as make image PUSH=… prints it; by default --repository with the digest of --layout")
	set.StringVar(&o.layout, "layout", "_image", "`folder` of the operator's image, as make image writes it")
	set.StringVar(&o.repository, "repository", "ghcr.io/windows-machine-config/wmco", "`repository` of the operator's image")
	set.StringVar(&o.bundleRepository, "bundle-repository", "", "`repository` of the bundle's image; by default that of the operator's with -bundle")
	set.StringVar(&o.catalogRepository, "catalog-repository", "", "`repository` of the catalog's image; by default that of the operator's with -catalog")
	set.StringVar(&o.revision, "revision", "", "`commit` that the release is built from")
	set.StringVar(&o.previous, "previous", "", "`file` catalog.yaml of the last release, whose newest version this one replaces; empty for the first release")
	set.StringVar(&o.withdrawn, "withdraw", "", "published `version` that this catalog omits; installations of it are no longer upgraded")
	set.StringVar(&o.out, "out", "_olm", "`folder` for the bundle, the catalog and their images as OCI image layouts")
	set.BoolVar(&o.catalog, "catalog", false, "also build the catalog")
	set.BoolVar(&o.push, "push", false, "push the images to their repositories, tagged with the version, and the catalog also with its channel; uses the credentials of docker login or podman login")
	set.BoolVar(&o.plainHTTP, "plain-http", false, "push without TLS")
	o.bundle.Maintainer = mail.Address{Name: "Maintainers", Address: "maintainers@windows-machine-config.example"}
	set.Func("maintainer", "contact for questions: `\"name <mail address>\"`", func(value string) error {
		address, err := mail.ParseAddress(value)
		if err == nil {
			o.bundle.Maintainer = *address
		}
		return err
	})
	set.Func("sign-key", "`file` with an ECDSA private key in PEM, which signs what is pushed", func(value string) (err error) {
		o.key, err = signature.ReadKey(value)
		return err
	})
	set.StringVar(&o.builder, "builder", signature.HandBuilder(image.Repository), "`URI` of the builder of the images, for the signed provenance")
	set.Func("created", "`time` of that commit, as in 2026-11-23T10:00:00Z", func(value string) (err error) {
		o.bundle.Created, err = time.Parse(time.RFC3339, value)
		return err
	})
	_ = set.Parse(args) // prints the error and exits
	if set.NArg() > 0 {
		fmt.Fprintf(set.Output(), "unexpected argument %q\n", set.Arg(0))
		os.Exit(2)
	}
	if o.bundle.Image != "" {
		o.repository, _, _ = strings.Cut(o.bundle.Image, "@")
	}
	if o.bundleRepository == "" {
		o.bundleRepository = o.repository + "-bundle"
	}
	if o.catalogRepository == "" {
		o.catalogRepository = o.repository + "-catalog"
	}
	return o
}

func run(ctx context.Context, o options, w io.Writer) error {
	if o.bundle.Image == "" {
		digest, _, err := image.Read(o.layout)
		if err != nil {
			return fmt.Errorf("%w, or name a pushed image with its digest", err)
		}
		o.bundle.Image = o.repository + "@" + digest
	}
	former, err := readPrevious(o.previous)
	if err != nil {
		return err
	}
	if former != nil {
		if o.bundle.Replaces, err = former.Head(); err != nil {
			return err
		}
	}
	b, err := bundle.Build(o.bundle)
	if err != nil {
		return err
	}
	if err := o.writeFolders(b); err != nil {
		return err
	}
	index, err := b.Image(o.source())
	if err != nil {
		return err
	}
	ref, err := o.reference(index, o.bundleRepository)
	if err != nil {
		return err
	}
	if !o.catalog {
		return o.publish(ctx, w, index, o.bundleRepository, "bundle-image")
	}
	next := former
	if next == nil {
		next, err = catalog.New(b, ref)
	} else {
		err = next.Add(b, ref)
	}
	if err != nil {
		return err
	}
	if err := o.keepsPublished(ctx, next); err != nil {
		return err
	}
	if err := o.publish(ctx, w, index, o.bundleRepository, "bundle-image"); err != nil {
		return err
	}
	return o.writeCatalog(ctx, w, next)
}

// keepsPublished checks the catalog that the channel's tag currently has, before anything is pushed.
func (o options) keepsPublished(ctx context.Context, next *catalog.Catalog) error {
	if !o.push {
		return nil
	}
	reference := o.catalogRepository + ":" + bundle.Channel
	index, err := image.Pull(ctx, reference, o.plainHTTP)
	if err != nil || index == nil {
		return err
	}
	published, err := catalog.OfImage(index)
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	if err := next.Keeps(published, o.withdrawn); err != nil {
		return fmt.Errorf("nothing was pushed: %s: %w", reference, err)
	}
	return nil
}

// writeCatalog writes the catalog and its image. The channel's tag, which installations follow, is pushed last.
func (o options) writeCatalog(ctx context.Context, w io.Writer, c *catalog.Catalog) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	if err := archive.WriteFolder(filepath.Join(o.out, "catalog"), map[string][]byte{"catalog.yaml": text}); err != nil {
		return err
	}
	index, err := c.Image(o.source())
	if err != nil {
		return err
	}
	if err := o.publish(ctx, w, index, o.catalogRepository, "catalog-image"); err != nil || !o.push {
		return err
	}
	_, err = image.Push(ctx, o.catalogRepository+":"+bundle.Channel, o.plainHTTP, index)
	return err
}

// writeFolders writes the bundle's files, and the entry that proposes it to a community catalog.
func (o options) writeFolders(b *bundle.Bundle) error {
	files, err := b.Files()
	if err != nil {
		return err
	}
	entry, err := b.Community()
	if err != nil {
		return err
	}
	return errors.Join(archive.WriteFolder(filepath.Join(o.out, "bundle"), files), archive.WriteFolder(filepath.Join(o.out, "community"), entry))
}

func (o options) source() image.Source {
	return image.Source{Version: o.bundle.Version, Revision: o.revision, Created: o.bundle.Created}
}

// reference returns the name of an image with its digest.
func (o options) reference(index v1.ImageIndex, repository string) (string, error) {
	digest, err := index.Digest()
	return repository + "@" + digest.String(), err
}

// publish pushes an image with the version as its tag, or writes it into a folder, and prints its name with the digest.
func (o options) publish(ctx context.Context, w io.Writer, index v1.ImageIndex, repository, folder string) error {
	ref, err := o.reference(index, repository)
	if err != nil {
		return err
	}
	if o.push {
		_, err = image.Push(ctx, repository+":"+o.bundle.Version, o.plainHTTP, index)
		if err == nil && o.key != nil {
			err = image.Sign(ctx, repository+":"+o.bundle.Version, o.plainHTTP, index, o.key, o.source().Provenance(o.builder))
		}
	} else {
		err = image.Write(filepath.Join(o.out, folder), o.source(), index)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s is complete\n", ref)
	return err
}

// readPrevious reads the catalog of the last release; nil if there is none.
func readPrevious(name string) (*catalog.Catalog, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return catalog.Decode(file)
}
