package desired

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/trust"
)

// reserved is what Sign adds to data at most, and what the version of secrets takes, in bytes.
const reserved = 1 << 10

// maxNamed is how many of the largest parts a message names.
const maxNamed = 4

// ErrTooLarge says that a Node has more than nodes can have, or than can be published.
var ErrTooLarge = errors.New("too large")

// publishedSize counts the bytes of data as the API server does, and those of the keys.
func publishedSize(data map[string]string) (size int) {
	for key, value := range data {
		size += len(key) + len(value)
	}
	return size
}

// fits tells whether data can be published once they are signed.
func fits(data map[string]string) bool { return publishedSize(data)+reserved <= maxPublished }

// checkSize says which parts of data are too large together.
func checkSize(data map[string]string) error {
	if fits(data) {
		return nil
	}
	var parts []sized
	for key, value := range data {
		parts = append(parts, sized{"key " + key, len(value)})
	}
	return fmt.Errorf("%w: the settings have %d bytes, at most %d can be published (%s)",
		ErrTooLarge, publishedSize(data), maxPublished-reserved, largest(parts))
}

// sized is something and its bytes.
type sized struct {
	what  string
	bytes int
}

// largest names the largest, and says how many others there are.
func largest(all []sized) string {
	slices.SortFunc(all, func(a, b sized) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.what, b.what)) })
	var texts []string
	for _, s := range all[:min(len(all), maxNamed)] {
		texts = append(texts, fmt.Sprintf("%s: %d bytes", s.what, s.bytes))
	}
	if more := len(all) - maxNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// CheckSize says whether the Node can be published. The error is ErrSettings, and names the bundles of certificates by their size.
func (r Rendered) CheckSize() error {
	_, err := r.Node.Data()
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w; nodes keep the settings that they have", ErrSettings, r.bundles.explain(err))
	}
	return err
}

// bundleSizes are the bundles that Certificates are of.
type bundleSizes []sized

func sizesOf(bundles []trust.Bundle) (sizes bundleSizes) {
	for _, b := range bundles {
		sizes = append(sizes, sized{b.Name, len(b.PEM)})
	}
	return sizes
}

// explain adds to an error that says that something is too large which certificates make it so.
func (b bundleSizes) explain(err error) error {
	if !errors.Is(err, ErrTooLarge) || len(b) == 0 {
		return err
	}
	return fmt.Errorf("%w; certificates come from %s; remove those that Windows nodes need not trust", err, largest(b))
}
