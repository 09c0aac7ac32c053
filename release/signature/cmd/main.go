// The command signs the files of a release. "make sign" runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/windows-machine-config/wmco/release/signature"
)

func main() {
	set := flag.NewFlagSet("sign", flag.ExitOnError)
	p := signature.Provenance{Source: "https://github.com/windows-machine-config/wmco"}
	dir := set.String("release", "../_release", "`folder` that make release wrote")
	keyFile := set.String("key", "", "`file` with an ECDSA private key in PEM")
	public := set.String("public-key", "../cosign.pub", "`file` with the public key that users verify with; if the file does not exist, any key is accepted")
	set.StringVar(&p.Version, "version", "", "semantic `version` of the release, without v")
	set.StringVar(&p.Revision, "revision", "", "`commit` that the release is built from")
	set.StringVar(&p.Builder, "builder", signature.HandBuilder(p.Source), "`URI` of the builder")
	_ = set.Parse(os.Args[1:]) // prints the error and exits
	if err := sign(*dir, *keyFile, *public, p); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func sign(dir, keyFile, public string, p signature.Provenance) error {
	key, err := signature.ReadKey(keyFile)
	if err != nil {
		return err
	}
	if err := signature.CheckPublic(public, key); err != nil {
		return err
	}
	return signature.Release(dir, p, key)
}
