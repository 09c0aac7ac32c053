package desired

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// reserved is the maximum that Sign and the version of the secrets add to the data, in bytes.
const reserved = 1 << 10

// maxNamed is the maximum number of parts that a message names.
const maxNamed = 4

// ErrTooLarge means that a Node exceeds the bounds of nodes, or what can be published.
var ErrTooLarge = errors.New("too large")

// publishedSize returns the number of bytes of the data, counted as the API server does, plus those of the keys.
func publishedSize(data map[string]string) (size int) {
	for key, value := range data {
		size += len(key) + len(value)
	}
	return size
}

// fits reports whether data can be published after signing.
func fits(data map[string]string) bool { return publishedSize(data)+reserved <= maxPublished }

// checkSize returns an error that names the largest parts if the data is too large.
func checkSize(data map[string]string) error {
	if fits(data) {
		return nil
	}
	var parts []sized
	for key, value := range data {
		parts = append(parts, sized{"key " + key, len(value)})
	}
	return fmt.Errorf("%w: the settings have %d bytes; at most %d can be published (%s)",
		ErrTooLarge, publishedSize(data), maxPublished-reserved, largest(parts))
}

// sized is the name of something and its size.
type sized struct {
	what  string
	bytes int
}

// largest names the largest parts and the number of the others.
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

// CheckSize returns an error if the Node cannot be published. The error is ErrSettings and names the bundles of certificates by
// size.
func (r Rendered) CheckSize() error {
	_, err := r.Node.Data()
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w; nodes keep their current settings", ErrSettings, r.bundles.explain(err))
	}
	return err
}

// bundleSizes are the sizes of the bundles that contain Certificates.
type bundleSizes []sized

func sizesOf(bundles []trust.Bundle) (sizes bundleSizes) {
	for _, b := range bundles {
		sizes = append(sizes, sized{b.Name, len(b.PEM)})
	}
	return sizes
}

// explain adds the bundles of certificates to an ErrTooLarge.
func (b bundleSizes) explain(err error) error {
	if !errors.Is(err, ErrTooLarge) || len(b) == 0 {
		return err
	}
	return fmt.Errorf("%w; certificates come from %s; remove those that Windows nodes do not need", err, largest(b))
}
