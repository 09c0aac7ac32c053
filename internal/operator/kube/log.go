package kube

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"

	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// NewLogger returns the operator's logger. Log lines quote programs, hosts and registries; secrets in them are masked, as in events.
func NewLogger(to io.Writer, debug bool) logr.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.Level(-4)
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: masked(mask.New())}))
}

// masked masks secrets in texts. Other attributes than strings and errors are numbers, times and names of objects.
func masked(m *mask.Masker) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			return slog.String(a.Key, m.Text(v))
		case error:
			return slog.String(a.Key, m.Text(v.Error()))
		}
		return a
	}
}
