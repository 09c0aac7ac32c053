package main

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
)

func TestFlagsAreReadFromArgumentsAndARGS(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		want flags
		err  string
	}{
		"nothing":             {nil, nil, flags{namespace: api.DefaultNamespace}, ""},
		"of a pod":            {nil, map[string]string{"POD_NAMESPACE": "windows", "POD_NAME": "wmco-x"}, flags{namespace: "windows", pod: "wmco-x"}, ""},
		"debugging with OLM":  {[]string{"--apply-policies"}, map[string]string{"ARGS": "--debugLogging"}, flags{namespace: api.DefaultNamespace, debug: true, applyPolicies: true}, ""},
		"ARGS win":            {[]string{"--debugLogging"}, map[string]string{"ARGS": " --debugLogging=false  --namespace=b "}, flags{namespace: "b"}, ""},
		"ARGS with a mistake": {nil, map[string]string{"ARGS": "--debug"}, flags{}, "flag provided but not defined: -debug"},
		"ARGS with words":     {nil, map[string]string{"ARGS": "--debugLogging true"}, flags{}, `"true" is not a flag`},
		"OLM": {nil, map[string]string{"OPERATOR_CONDITION_NAME": "x.v1", "WATCH_NAMESPACE": "windows", "POD_NAMESPACE": "windows"},
			flags{namespace: "windows", operatorCondition: "x.v1"}, ""},
		"another target": {nil, map[string]string{"WATCH_NAMESPACE": "a,b", "POD_NAMESPACE": "windows"}, flags{}, `WATCH_NAMESPACE is "a,b"`},
		"TLS":            {[]string{"--tls-min-version=VersionTLS11"}, nil, flags{}, "VersionTLS11"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args, func(key string) string { return tc.env[key] })
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("the error is %v, want one containing %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.namespace != tc.want.namespace || got.debug != tc.want.debug || got.applyPolicies != tc.want.applyPolicies ||
				got.operatorCondition != tc.want.operatorCondition || got.pod != tc.want.pod || got.metrics.minVersion != tls.VersionTLS12 {
				t.Errorf("flags are %+v, want %+v", got, tc.want)
			}
		})
	}
}
