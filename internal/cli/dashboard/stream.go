package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

type page struct {
	server  *server
	w       http.ResponseWriter
	control *http.ResponseController
	host    string // empty for the fleet

	sent *snapshot
	pods *source
}

func (p *page) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		now, changed, err := p.server.hub.current()
		if err != nil {
			return err
		}
		if err := p.update(ctx, now); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.server.hub.pause()):
		}
		var podsChanged <-chan struct{}
		if p.pods != nil {
			podsChanged = p.pods.changed
		}
		if now.version != p.server.hub.version() {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-podsChanged:
		case <-time.After(keepAlive):
			if err := p.write(": still here\n\n"); err != nil {
				return err
			}
		}
	}
}

func (p *page) update(ctx context.Context, now *snapshot) error {
	if p.host == "" {
		if p.sent != nil && p.sent.version == now.version {
			return nil
		}
		u := now.updateFrom(p.sent)
		p.sent = now
		return p.send("fleet", u)
	}
	p.sent = now
	h, found := now.fleet.Find(p.host)
	if !found {
		return p.send("host", map[string]any{"overview": now.overview, "missing": true})
	}
	if p.pods == nil && h.Node != "" {
		p.pods = podsOf(p.server.client, h.Node)
		go p.pods.run(ctx)
	}
	var pods podList
	if p.pods != nil {
		pods = podListOf(p.pods)
	}
	return p.send("host", map[string]any{"overview": now.overview, "host": h, "pods": pods, "logs": services()})
}

func (p *page) send(event string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return p.write("event: " + event + "\ndata: " + string(text) + "\n\n")
}

func (p *page) write(text string) error {
	if err := p.control.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := io.WriteString(p.w, text); err != nil {
		return err
	}
	return p.control.Flush()
}
