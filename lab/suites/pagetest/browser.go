//go:build linux

package pagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/dashboard"
)

// CanShow returns an error if the page cannot be shown on this machine.
func CanShow() error {
	if _, err := exec.LookPath("chromium"); err != nil {
		return errors.New("chromium is missing; install it with apt-get install chromium")
	}
	return nil
}

// Page is the page in a browser.
type Page struct {
	// Context is the context of the browser's tab, for chromedp.
	Context context.Context
	// Link is the address with which the page was opened. It is valid only once.
	Link string

	ends []context.CancelFunc
	dir  string
}

// Serve serves the page until the context ends, and returns an address that grants one browser access.
func Serve(ctx context.Context, config *rest.Config, cluster string) (link string, err error) {
	links := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- dashboard.Run(ctx, dashboard.Options{Config: config, Namespace: api.DefaultNamespace, Cluster: cluster, Started: func(a string) { links <- a }})
	}()
	select {
	case link = <-links:
		return link, nil
	case err = <-failed:
		return "", err
	}
}

// Open opens an address of Serve in a new browser.
func Open(ctx context.Context, link string) (*Page, error) {
	p, err := Browse(ctx)
	if err != nil {
		return nil, err
	}
	p.Link = link
	if err := chromedp.Do(p.Context, chromedp.Navigate(link)); err != nil {
		p.Close()
		return nil, fmt.Errorf("opening the page: %w", err)
	}
	if err := p.Until(`document.documentElement.dataset.ready === "yes"`, 30*time.Second); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Browse starts a browser.
func Browse(ctx context.Context) (*Page, error) {
	dir, err := os.MkdirTemp("", "wmco-chromium-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(dir), chromedp.Env("TMPDIR="+dir), // removed by Close
		chromedp.WindowSize(1280, 1000), chromedp.Flag("headless", "new"), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-background-networking", true))
	p := &Page{dir: dir}
	allocated, end := chromedp.NewExecAllocator(ctx, options...)
	p.ends = append(p.ends, end)
	p.Context, end = chromedp.NewContext(allocated)
	p.ends = append(p.ends, end)
	return p, nil
}

// Close stops the browser.
func (p *Page) Close() {
	for i := len(p.ends) - 1; i >= 0; i-- {
		p.ends[i]()
	}
	_ = os.RemoveAll(p.dir)
}

// Until waits until a JavaScript expression is true.
func (p *Page) Until(expression string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	reloaded := func(err error) bool { // the first address redirects
		return err != nil && (strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "navigated or closed"))
	}
	_, err := chromedp.Run(p.Context, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(timeout)))
	for reloaded(err) && time.Now().Before(deadline) {
		_, err = chromedp.Run(p.Context, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Until(deadline))))
	}
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; text of the page:\n%s", expression, err, p.Text("body"))
	}
	return nil
}

// Text returns the visible text of an element.
func (p *Page) Text(selector string) string { return p.property(selector, "innerText") }

// Value returns the value of an input.
func (p *Page) Value(selector string) string { return p.property(selector, "value") }

func (p *Page) property(selector, name string) string {
	text, err := chromedp.Run(p.Context, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q)?.%s ?? ""`, selector, name)))
	if err != nil {
		return err.Error()
	}
	return text
}

// Do runs a JavaScript expression.
func (p *Page) Do(expression string) error {
	_, err := chromedp.Run(p.Context, chromedp.Evaluate[bool](expression+"; true"))
	return err
}

// Type presses keys.
func (p *Page) Type(keys string) error {
	for _, key := range keys {
		press := func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			// Like a keyboard, send one event for the key and its character, so that a page that prevents the default gets no
			// character. KeyEvent would send two events.
			down := t.Call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": string(key), "text": string(key)}, nil)
			return chromedp.Void{}, errors.Join(down, t.Call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": string(key)}, nil))
		}
		if !unicode.IsPrint(key) {
			press = chromedp.KeyEvent(string(key))
		}
		if _, err := chromedp.Run(p.Context, press); err != nil {
			return err
		}
	}
	return nil
}

// Size sets the size of the page in pixels.
func (p *Page) Size(width, height int64) error {
	return chromedp.Do(p.Context, chromedp.EmulateViewport(width, height))
}

// Scheme sets the preference for light or dark colors.
func (p *Page) Scheme(scheme string) error {
	_, err := chromedp.Run(p.Context, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		features := []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}
		return chromedp.Void{}, t.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": features}, nil)
	})
	return err
}

// Shot returns a screenshot as PNG.
func (p *Page) Shot() ([]byte, error) {
	time.Sleep(600 * time.Millisecond) // wait for transitions of colors
	return chromedp.Run(p.Context, chromedp.CaptureScreenshot())
}
