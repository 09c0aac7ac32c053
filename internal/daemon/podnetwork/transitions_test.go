package podnetwork

import "testing"

// TestProxyStates walks the ways that kube-proxy goes.
func TestProxyStates(t *testing.T) {
	for name, test := range map[string]struct {
		events []proxyEvent
		want   proxyState
	}{
		"starts":                              {nil, proxyStarting},
		"has made all":                        {[]proxyEvent{proxyComplete}, proxyServing},
		"ends by itself":                      {[]proxyEvent{proxyComplete, proxyReplaced}, proxyStarting},
		"lost some":                           {[]proxyEvent{proxyComplete, proxyRestartAsked}, proxyRestarting},
		"lost some, and starts again":         {[]proxyEvent{proxyComplete, proxyRestartAsked, proxyReplaced}, proxyRepairing},
		"lost some, and ends before":          {[]proxyEvent{proxyRestartAsked, proxyReplaced, proxyReplaced}, proxyRepairing},
		"is asked again":                      {[]proxyEvent{proxyComplete, proxyRestartAsked, proxyReplaced, proxyRestartAsked}, proxyRepairing},
		"has made all again":                  {[]proxyEvent{proxyComplete, proxyRestartAsked, proxyReplaced, proxyComplete}, proxyServing},
		"what was lost came back by itself":   {[]proxyEvent{proxyComplete, proxyRestartAsked, proxyComplete}, proxyServing},
		"the network went while it started":   {[]proxyEvent{proxyRestartAsked}, proxyRepairing},
		"repaired, and ends by itself later":  {[]proxyEvent{proxyRestartAsked, proxyReplaced, proxyComplete, proxyReplaced}, proxyStarting},
		"lost some, and lost some once again": {[]proxyEvent{proxyComplete, proxyRestartAsked, proxyRestartAsked}, proxyRestarting},
	} {
		t.Run(name, func(t *testing.T) {
			state := proxyStarting
			for _, e := range test.events {
				state = state.after(e)
			}
			if state != test.want {
				t.Errorf("the state is %d, want %d", state, test.want)
			}
		})
	}
}
