// Command generate writes the documents and manifests that are made from the code, in the repository of the working
// folder. Generating them keeps them equal to the code.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	// Each returns the content of files by their paths in the repository.
	for _, generate := range []func(root string) (map[string][]byte, error){
		objects, commands, counterparts, support, monitoringFiles, podRules,
	} {
		if err := write(generate(".")); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

func write(files map[string][]byte, err error) error {
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
