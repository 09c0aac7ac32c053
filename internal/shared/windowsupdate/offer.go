package windowsupdate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// MaxOffers limits the offers of a summary, and with it the articles of one installation.
const MaxOffers = 6

// MaxOrder limits the name of an Installation, maxMessage its message, in bytes.
const MaxOrder, maxMessage = 40, 240

// Offer is an update that can be installed now.
type Offer struct {
	// KB is its article.
	KB string `json:"kb"`
	// Published is when it was published; zero if unknown.
	Published time.Time `json:"published,omitzero"`
	// NoRestart is true if its installation never needs a restart.
	NoRestart bool `json:"noRestart,omitempty"`
}

// Selection is which updates are installed.
type Selection struct {
	// Classes are those of WindowsConfig. Definitions and others cannot be selected.
	Classes []Class `json:"classes"`
	// Approved are the only articles that are installed; empty for no such limit.
	Approved []string `json:"approved,omitempty"`
	// Blocked are articles that are not installed.
	Blocked []string `json:"blocked,omitempty"`
}

// Validate returns an error that names the first invalid value.
func (s Selection) Validate() error {
	for _, class := range s.Classes {
		if class != Security && class != Critical {
			return fmt.Errorf("class %.64q of updates cannot be installed; allowed: %s and %s", class, Security, Critical)
		}
	}
	for _, kb := range slices.Concat(s.Approved, s.Blocked) {
		if kb == "" || KBOf(kb) != kb {
			return fmt.Errorf("approved or blocked update %.64q is not a KB number; the format is KB followed by 6 to 8 digits", kb)
		}
	}
	return nil
}

// Selects reports whether an update should be installed. One that takes effect with a restart that is still to come is not.
func (s Selection) Selects(u Update) bool {
	return s.Excludes(u) == "" && u.ID != "" && !u.RestartPending
}

// Excludes returns why an update is not installed, in words; empty if it is selected. One without an article never is, because it cannot be named.
func (s Selection) Excludes(u Update) string {
	switch {
	case !slices.Contains(s.Classes, u.Class):
		return fmt.Sprintf("updates of class %s are not installed", u.Class)
	case len(u.KBs) == 0:
		return "it has no KB number"
	case u.HasArticle(s.Blocked):
		return "it is blocked"
	case len(s.Approved) > 0 && !u.HasArticle(s.Approved):
		return "it is not in spec.windowsUpdates.approved"
	case u.Interactive:
		return "its installation may prompt the user"
	}
	return ""
}

// Selected returns the pending updates of a report that are selected, downloaded or not.
func (r Report) Selected(s Selection) (updates []Update) {
	for _, u := range r.Pending {
		if s.Selects(u) {
			updates = append(updates, u)
		}
	}
	return updates
}

// Offers returns what can be installed: the selected updates that are downloaded, by publication and article. Those with the same first article are one
// offer.
func (r Report) Offers(s Selection) (offers []Offer) {
	for _, u := range r.Selected(s) {
		if !u.Downloaded {
			continue
		}
		offer := Offer{KB: u.KBs[0], Published: u.Published.Truncate(time.Second), NoRestart: u.Restart == RestartNever}
		i := slices.IndexFunc(offers, func(o Offer) bool { return o.KB == offer.KB })
		if i < 0 {
			offers = append(offers, offer)
			continue
		}
		offers[i].NoRestart = offers[i].NoRestart && offer.NoRestart
		if offer.Published.After(offers[i].Published) {
			offers[i].Published = offer.Published
		}
	}
	slices.SortFunc(offers, func(a, b Offer) int { return cmp.Or(a.Published.Compare(b.Published), cmp.Compare(a.KB, b.KB)) })
	return offers[:min(len(offers), MaxOffers)]
}

// InstallationState is the state of an installation.
type InstallationState string

// States of an installation, in order. Done and Failed are final.
const (
	Installing      InstallationState = "Installing"
	RestartRequired InstallationState = "RestartRequired"
	Done            InstallationState = "Done"
	Failed          InstallationState = "Failed"
)

// Installation is the state of an installation that the operator requested.
type Installation struct {
	// Order is the operator's name for the request.
	Order string `json:"order"`
	// State is one of the constants; another value is treated as Failed.
	State InstallationState `json:"state"`
	// Boot is the boot ID of the host in which a restart is required; empty if none is.
	Boot string `json:"boot,omitempty"`
	// Message is what it waits for, or why it failed.
	Message string `json:"message,omitempty"`
}

// IsFinal reports whether nothing follows.
func (i Installation) IsFinal() bool { return i.State == Done || i.State == Failed }

// Bounded returns the installation within its bounds. An unknown state is a failure.
func (i Installation) Bounded() Installation {
	i.Order, i.Boot, i.Message = line(i.Order, MaxOrder), line(i.Boot, MaxOrder), line(i.Message, maxMessage)
	if !slices.Contains([]InstallationState{Installing, RestartRequired, Done, Failed}, i.State) {
		i.State, i.Message = Failed, "unknown state"
	}
	return i
}
