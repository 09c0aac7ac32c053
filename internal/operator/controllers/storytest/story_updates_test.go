package storytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// storyUpdates are the updates of a host's Windows, and WICD's part in them. The zero value has none.
type storyUpdates struct {
	offers []windowsupdate.Offer
	// refuses maps articles to the error of their installation, undoes to the error with which Windows takes them back during a restart.
	refuses, undoes map[string]string
	// breaks is an article with which the kubelet does not work; breaksAlways, even without it once it was installed.
	breaks       string
	breaksAlways bool
	// staysFor is the error with which Windows refuses to uninstall updates; empty if it does not.
	staysFor string
	// firstRestart makes the first installation wait for a restart.
	firstRestart bool
	// takes is how long an installation takes.
	takes time.Duration

	order *windowsupdate.Installation
	// undoing is the order that the last one undoes; empty if it does not.
	undoing   string
	kbs       []string
	ends      time.Time
	installed []string
}

// installUpdates stores an order, as WICD's command does.
func (h *storyHost) installUpdates(r wicdapi.InstallUpdatesRequest) (wicdapi.InstallUpdatesResult, error) {
	u := &h.updates
	if u.order != nil && u.order.Order == r.Order {
		return wicdapi.InstallUpdatesResult{Installation: *u.order}, nil
	}
	if u.order != nil && u.order.State == windowsupdate.Installing {
		return wicdapi.InstallUpdatesResult{}, &wicdapi.Error{Code: wicdapi.CodeBusy, Message: "installation " + u.order.Order + " is in progress"}
	}
	h.story.mustBeDrained(h, true, "installs updates")
	if u.undoing = r.Undoes; r.Undoes == "" {
		u.kbs = r.KBs
		h.story.record("%s installs %s", h.name, strings.Join(u.kbs, ", "))
	} else {
		h.story.record("%s uninstalls %s", h.name, strings.Join(u.kbs, ", "))
	}
	u.ends = time.Now().Add(u.takes)
	u.order = &windowsupdate.Installation{Order: r.Order, State: windowsupdate.Installing}
	return wicdapi.InstallUpdatesResult{Installation: *u.order}, nil
}

// advance carries out the order, as WICD and Windows do, and returns the state for comparison.
func (u *storyUpdates) advance(h *storyHost) string {
	if h.serves() && u.order != nil && h.hasCheckedRestart() {
		u.carryOut(h)
	}
	order := windowsupdate.Installation{}
	if u.order != nil {
		order = *u.order
	}
	return fmt.Sprint(u.offers, order)
}

func (u *storyUpdates) carryOut(h *storyHost) {
	state := func(s windowsupdate.InstallationState, message string) { u.order.State, u.order.Message = s, message }
	switch {
	case u.undoing != "":
		u.uninstall(h)
	case u.order.State == windowsupdate.RestartRequired && u.order.Boot != h.boot():
		if u.firstRestart {
			u.firstRestart = false
			u.ends = time.Now().Add(u.takes)
			state(windowsupdate.Installing, "")
			return
		}
		for _, kb := range u.kbs {
			if reason := u.undoes[kb]; reason != "" {
				state(windowsupdate.Failed, "Windows rolled back "+kb+" during its restart: "+reason)
				return
			}
		}
		u.complete(h)
	case u.order.State == windowsupdate.Installing && !time.Now().Before(u.ends):
		for _, kb := range u.kbs {
			if reason := u.refuses[kb]; reason != "" {
				state(windowsupdate.Failed, kb+" failed with "+reason)
				return
			}
		}
		if u.firstRestart || slices.ContainsFunc(u.offers, func(o windowsupdate.Offer) bool { return slices.Contains(u.kbs, o.KB) && !o.NoRestart }) {
			u.order.Boot = h.boot()
			state(windowsupdate.RestartRequired, "")
			return
		}
		u.complete(h)
	}
}

// uninstall carries out an order to undo the last one.
func (u *storyUpdates) uninstall(h *storyHost) {
	switch {
	case u.order.State == windowsupdate.Installing && !time.Now().Before(u.ends) && u.staysFor != "":
		u.order.State, u.order.Message = windowsupdate.Failed, u.staysFor
	case u.order.State == windowsupdate.Installing && !time.Now().Before(u.ends):
		u.order.State, u.order.Boot = windowsupdate.RestartRequired, h.boot()
	case u.order.State == windowsupdate.RestartRequired && u.order.Boot != h.boot():
		u.order.State, u.order.Message = windowsupdate.Done, "Windows has revision 1"
		u.installed = slices.DeleteFunc(u.installed, func(kb string) bool { return slices.Contains(u.kbs, kb) })
		for _, kb := range u.kbs {
			u.offers = append(u.offers, windowsupdate.Offer{KB: kb, Published: time.Now().UTC().Truncate(time.Second)})
		}
		if !u.breaksAlways {
			h.serviceFault = ""
		}
	}
}

func (u *storyUpdates) complete(h *storyHost) {
	u.order.State, u.order.Message = windowsupdate.Done, ""
	u.offers = slices.DeleteFunc(u.offers, func(o windowsupdate.Offer) bool { return slices.Contains(u.kbs, o.KB) })
	u.installed = append(u.installed, u.kbs...)
	if slices.Contains(u.kbs, u.breaks) {
		h.serviceFault = "kubelet exits: entry point not found"
	}
}

// report writes the summary, if there is anything to report.
func (u *storyUpdates) report(node *corev1.Node) {
	if len(u.offers) > 0 || u.order != nil || node.Annotations[api.AnnotationWindowsUpdates] != "" {
		node.Annotations[api.AnnotationWindowsUpdates] = windowsupdate.Summary{Offers: u.offers, Installation: u.order}.Format()
	}
}
