# Extracts failures from the output of go test, with or without -v: failed tests with their output, and errors that ended whole packages.
# It omits the logs of passed tests, and the logs of clusters that failed tests print.
/^=== (RUN|NAME|CONT)/ { test = $3; next }
/^ *--- (PASS|SKIP)/ { test = ""; next }
/^ *--- FAIL/ { test = $3; failed[++n] = test; output[test] = substr($0, 1, 1000) "\n" output[test]; next }
/^panic: /, /^$/ { other = other substr($0, 1, 1000) "\n"; next }
/^(FAIL|WARNING: DATA RACE)|\*\*\* Test killed/ { other = other $0 "\n"; next }
/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { output[test] = output[test] substr($0, 1, 1000) "\n" }
END {
	for (i = 1; i <= n; i++) printf "%s", output[failed[i]]
	printf "%s", other
}
